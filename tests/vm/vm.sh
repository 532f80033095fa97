#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# One virtual machine that stays up, so that many commands share a boot:
#   vm.sh start FOLDER [--forward HOSTPORT:GUESTPORT]... [--siw k=v,...] [--stock-siw] [--memory MB] [--cpus N]
#   vm.sh run FOLDER COMMAND       runs it as root in the machine, streams its output, exits as it does
#   vm.sh begin FOLDER COMMAND     starts it, prints its number (output: FOLDER/jobs/NUMBER.out)
#   vm.sh stop FOLDER              ends the machine; exit 1 and the text when its kernel complained
# FOLDER is made, is visible in the machine at the same path, and holds console, jobs and the machine's pid.
# The host's root is the machine's root; what it writes elsewhere is lost. The host is 10.0.2.2.
set -u
HERE=$(cd "$(dirname "$0")" && pwd)
CACHE=${NDBROKER_VM_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/ndbroker-vm}
usage() { sed -n '3,11p' "$0" >&2; exit 2; }
[ $# -ge 2 ] || usage
ACTION=$1 FOLDER=$(realpath -m "$2")
shift 2
alive() { [ -s "$FOLDER/pid" ] && kill -0 "$(cat "$FOLDER/pid")" 2>/dev/null; }
submit() {
  JOB=$(date +%s%N).$BASHPID
  printf '%s\n' "$*" > "$FOLDER/jobs/$JOB.new"
  : > "$FOLDER/jobs/$JOB.out"
  mv "$FOLDER/jobs/$JOB.new" "$FOLDER/jobs/$JOB.job"
  call_agent
}
call_agent() { alive && timeout 5 bash -c 'echo > "$1"' - "$FOLDER/call.in"; }

case $ACTION in
start)
  FORWARD= SIW= STOCK= MEMORY=2048 CPUS=2
  while [ $# -gt 0 ]; do
    case $1 in
      --forward) FORWARD+=",hostfwd=tcp:127.0.0.1:${2%%:*}-:${2##*:}"; shift 2 ;;
      --siw) SIW=$2; shift 2 ;;
      --stock-siw) STOCK=1; shift ;;
      --memory) MEMORY=$2; shift 2 ;;
      --cpus) CPUS=$2; shift 2 ;;
      *) usage ;;
    esac
  done
  alive && { echo "vm: already running in $FOLDER" >&2; exit 1; }
  [ -s "$CACHE/initrd.gz" ] || { echo "vm: run $HERE/prepare.sh first" >&2; exit 1; }
  rm -rf "$FOLDER/jobs" "$FOLDER/stop" "$FOLDER/ready" "$FOLDER"/call.{in,out}
  mkdir -p "$FOLDER/jobs"
  mkfifo "$FOLDER"/call.{in,out}
  # Disables devices that the kernel would wait for, clock calibration, instructions that emulation executes byte by
  # byte, and checks and page tables that are expensive to emulate.
  CPU=max,erms=off,fsrm=off,la57=off,smap=off,smep=off,umip=off,pku=off
  KERNEL_LINE="console=ttyS0 quiet loglevel=4 panic=-1 nokaslr mitigations=off audit=0 lsm=yama edd=off noreplace-smp \
tsc=reliable tsc_early_khz=$("$CACHE/tsc_khz") no_timer_check nowatchdog cryptomgr.notests net.ifnames=0 random.trust_cpu=on raid=noautodetect \
vm.here=$HERE vm.share=$FOLDER vm.address=10.0.2.15/24 vm.gateway=10.0.2.2 ${SIW:+vm.siw=$SIW} ${STOCK:+vm.stock=1}"
  setsid nice -n "${NDBROKER_VM_NICE:-0}" qemu-system-x86_64 -accel tcg,thread=multi -M q35,hpet=off -cpu "$CPU" -smp "$CPUS" -m "$MEMORY" \
    -nodefaults -display none -no-reboot -kernel "$CACHE/vmlinux" -initrd "$CACHE/initrd.gz" -append "$KERNEL_LINE" \
    -chardev "file,id=console,path=$FOLDER/console" -serial chardev:console \
    -chardev "pipe,id=call,path=$FOLDER/call" -serial chardev:call \
    -virtfs local,path=/,mount_tag=hostroot,security_model=passthrough,readonly=on,multidevs=remap \
    -virtfs "local,path=$FOLDER,mount_tag=share,security_model=passthrough,multidevs=remap" \
    -netdev "user,id=n0$FORWARD" -device virtio-net-pci,netdev=n0 </dev/null >"$FOLDER/qemu.log" 2>&1 &
  echo $! > "$FOLDER/pid"
  for _ in $(seq 1500); do
    [ -e "$FOLDER/ready" ] && exit 0
    alive || break
    sleep 0.2
  done
  echo "vm: did not come up" >&2
  cat "$FOLDER/qemu.log" >&2
  tail -30 "$FOLDER/console" | tr -d '\r' >&2
  alive && kill "$(cat "$FOLDER/pid")"
  exit 1
  ;;
run)
  submit "$@"
  tail -c +1 -f -s 0.1 "$FOLDER/jobs/$JOB.out" 2>/dev/null &
  reader=$!
  while [ ! -e "$FOLDER/jobs/$JOB.rc" ]; do
    alive || { kill "$reader"; echo "vm: the machine is gone" >&2; exit 125; }
    sleep 0.05
  done
  sleep 0.25
  kill "$reader"
  wait "$reader" 2>/dev/null
  exit "$(cat "$FOLDER/jobs/$JOB.rc")"
  ;;
begin)
  submit "$@"
  echo "$JOB"
  ;;
stop)
  touch "$FOLDER/stop"
  call_agent
  for _ in $(seq 100); do alive || break; sleep 0.1; done
  alive && kill "$(cat "$FOLDER/pid")"
  rm -f "$FOLDER/pid"
  if grep -qaE 'BUG: |kernel BUG|Oops: |WARNING: CPU|general protection|Kernel panic' "$FOLDER/console"; then
    echo "vm: the guest kernel complained:" >&2
    grep -aE -A12 -m3 'BUG: |kernel BUG|Oops: |WARNING: CPU|general protection|Kernel panic' "$FOLDER/console" | tr -d '\r' | head -40 >&2
    exit 1
  fi
  ;;
*) usage ;;
esac
