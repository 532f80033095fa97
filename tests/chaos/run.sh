#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A soak: two brokers and 20 connections that carry numbered messages, while brokers are killed, stopped, restarted and
# flooded, their disk fills up, and applications are killed. No connection may be lost, no message wrong, and
# the memory and descriptors of the brokers stay flat.
set -Eeuo pipefail

usage() {
  cat << 'END'
usage: run.sh [--seconds N] [--seed N] BUILD
  --seconds  how long (default: NDBROKER_SOAK_SECONDS or 20; 28800 for the eight hours of a release)
  --seed     of the order of the faults (default: printed)
Loopback only, in a network namespace and on a tmpfs of its own. Exits 77 without the right to make them.
END
}
seconds=${NDBROKER_SOAK_SECONDS:-20} seed=$RANDOM arguments=("$@")
while [ $# -gt 1 ]; do
  case $1 in
    --seconds) seconds=$2 && shift ;;
    --seed) seed=$2 && shift ;;
    *) usage >&2 && exit 2 ;;
  esac
  shift
done
[ $# -eq 1 ] && [ "$1" != --help ] || { usage >&2 && exit 2; }
bin=$(readlink -f "$1")/bin
unshare --net --mount true 2> /dev/null || { echo "*** NOT TRIED: no right to make namespaces" && exit 77; }
[ -n "${NDBROKER_CHAOS:-}" ] || exec env NDBROKER_CHAOS=1 unshare --net --mount --propagation private "$0" "${arguments[@]}"
ip link set lo up
RANDOM=$seed

work=$(mktemp -d "${TMPDIR:-/tmp}/ndbroker-chaos-XXXXXX")
mount -t tmpfs -o size=8m tmpfs "$work"
mkdir "$work/log"
mount -t tmpfs -o size=256m tmpfs "$work/log"
declare -A pid=()
cleanup() {
  local status=$?
  trap '' INT TERM
  # As one command, because Bash reports those that were killed as soon as a command ends.
  { jobs -p | xargs -r kill -9; wait; } 2> /dev/null || true
  [ "$status" -eq 0 ] || { tail -n 4 "$work"/log/* && echo "repeat with --seed $seed"; }
  umount -l "$work/log" "$work"
  rmdir "$work"
  exit "$status"
}
trap cleanup EXIT
trap 'echo "FAILED: line $LINENO: $BASH_COMMAND" >&2' ERR
trap 'exit 130' INT TERM
fail() { echo "FAILED: $*" >&2 && exit 1; }
until_true() {
  local end=$((SECONDS + 60))
  until "${@:2}" 2> /dev/null; do
    [ $SECONDS -lt $end ] || fail "$1 did not happen within 60 seconds"
    sleep 0.05
  done
}

start() {
  local address=127.0.0.1
  [ "$1" = a ] || address=127.0.0.2
  "$bin/ndbrokerd" --dir "$work/$1" --adapter-address $address --log-level warning >> "$work/log/$1" 2>&1 &
  pid[$1]=$!
}
serves() { NDBROKER_DIR=$work/$1 "$bin/ndctl" status -q > /dev/null; }
restart() {
  kill "-$2" "${pid[$1]}"
  wait "${pid[$1]}" 2> /dev/null || true  # Bash would report that it was killed.
  start "$1"
  until_true "the return of broker $1" serves "$1"
}
start a
start b
until_true "the start" serves a
until_true "the start" serves b
NDBROKER_DIR=$work/a "$bin/nd-traffic" 10 10 "$work/b" > "$work/log/traffic" 2>&1 &
pid[traffic]=$!
until_true "traffic" grep -q '^ready' "$work/log/traffic"

# ---- Faults ----------------------------------------------------------------------------------------------
kill_broker() { restart "$([ $((RANDOM % 2)) = 0 ] && echo a || echo b)" KILL; }
restart_broker() { restart "$([ $((RANDOM % 2)) = 0 ] && echo a || echo b)" TERM; }
stop_broker() {
  kill -STOP "${pid[a]}" && sleep "0.$((RANDOM % 9 + 1))" && kill -CONT "${pid[a]}"
}
stop_application() {
  kill -STOP "${pid[traffic]}" && sleep "0.$((RANDOM % 5 + 1))" && kill -CONT "${pid[traffic]}"
}
kill_application() {
  NDBROKER_DIR=$work/b "$bin/ndctl" ping --serve 127.0.0.2:7100 > "$work/log/serve" 2>&1 &
  local server=$!
  NDBROKER_DIR=$work/a "$bin/ndctl" ping 127.0.0.2:7100 --count 1000000 > "$work/log/ping" 2>&1 &
  local client=$!
  sleep 0.5
  kill -9 $client $server 2> /dev/null || true  # The connection may have failed by an earlier fault.
  wait $client $server 2> /dev/null || true
}
flood_wire() {
  python3 - << 'END'
import os, random, socket, time
end = time.monotonic() + 1
held = []
while time.monotonic() < end and len(held) < 400:
    try:
        s = socket.create_connection(("127.0.0.1", 4794), 1)
        s.setblocking(False)
        s.send(os.urandom(random.randrange(200)))
        held.append(s)
    except OSError:
        time.sleep(0.01)
END
}
flood_clients() {
  python3 - "$work/a/client/lane.sock" << 'END'
import os, random, socket, sys, time
end = time.monotonic() + 1
while time.monotonic() < end:
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as s:
        try:
            s.settimeout(0.2)
            s.connect(sys.argv[1])
            s.send(os.urandom(random.randrange(1, 400)))
            s.recv(100)
        except OSError:
            time.sleep(0.002)
END
}
fill_disk() {
  dd if=/dev/zero of="$work/filler" bs=4k count=4096 2> /dev/null || true
  restart a KILL
  rm -f "$work/filler"
}
faults=(kill_broker restart_broker stop_broker stop_application kill_application flood_wire flood_clients fill_disk)

# ---- What must stay flat ---------------------------------------------------------------------------------
# Measured in processes of the same age, because a restart begins with little: after a restart and one second.
measure() { # FILE
  restart a TERM
  restart b TERM
  sleep 1
  local name
  for name in a b traffic; do
    printf '%s %s %s\n' $name "$(ls "/proc/${pid[$name]}/fd" | wc -l)" "$(awk '/^VmRSS/ { print $2 }' "/proc/${pid[$name]}/status")"
  done > "$1"
}

say_progress=$SECONDS end=$((SECONDS + seconds)) rounds=0
declare -A counts=()
measure "$work/log/first"  # The library has made what it needs after a first restart.
measure "$work/log/before"
while [ $SECONDS -lt $end ]; do
  fault=${faults[RANDOM % ${#faults[@]}]}
  # Each fault once at first, so that a short run has them all.
  [ $rounds -ge ${#faults[@]} ] || fault=${faults[rounds]}
  "$fault"
  counts[$fault]=$((${counts[$fault]:-0} + 1))
  rounds=$((rounds + 1))
  kill -0 "${pid[traffic]}" || fail "the traffic ended: $(tail -3 "$work/log/traffic")"
  kill -0 "${pid[a]}" && kill -0 "${pid[b]}" || fail "a broker ended by itself after $fault"
  sleep "0.$((RANDOM % 5))"
  if [ $((SECONDS - say_progress)) -ge 60 ]; then
    say_progress=$SECONDS
    echo "$rounds faults; $(awk '/^VmRSS/ { print $2 }' "/proc/${pid[a]}/status") KiB in broker a"
  fi
done
sleep 1
measure "$work/log/after"
echo "faults: $(for fault in "${!counts[@]}"; do printf '%s %s; ' "$fault" "${counts[$fault]}"; done)"
paste "$work/log/before" "$work/log/after" | awk '{
  printf "%s: descriptors %d -> %d, memory %d -> %d KiB\n", $1, $2, $5, $3, $6
  if ($5 > $2 + 2) { print "FAILED: descriptors of " $1 " grow"; bad = 1 }
  if ($6 > $3 * 1.2 + 4096) { print "FAILED: memory of " $1 " grows"; bad = 1 }
} END { exit bad }'
kill "${pid[traffic]}"
wait "${pid[traffic]}" || fail "a connection was lost or a message wrong: $(tail -1 "$work/log/traffic")"
tail -1 "$work/log/traffic"
echo "$rounds faults in $seconds seconds, seed $seed: no connection lost, no message wrong"
