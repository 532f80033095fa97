# SPDX-License-Identifier: Apache-2.0
# Sourced by run.sh: programs that are not a pair of one command each. Each function takes WHERE, one or two.

side_of() { [ "$1" = two ] && echo far || echo near; }
address_of() { [ "$1" = two ] && echo "$far" || echo "$near"; }
# more NAME SPEED PROGRAM: runs the function NAME on one broker and over two when the program is there.
more() {
  selected "$1" "$2" || return
  if ! installed $3; then missing=$((missing + 1)); echo "-     $1: not installed"; return; fi
  "${1//-/_}" one
  "${1//-/_}" two
}

# Package rdmacm-utils: a file of 64 MiB arrives as it was.
rcopy_file() {
  head -c 67108864 /dev/urandom > "$work/sent"
  rm -f "$work/received"
  (launch "$(side_of "$1")" rcopy) > "$work/server.log" 2>&1 &
  local waiter=$!
  head_start
  (launch near rcopy "$work/sent" "$(address_of "$1"):$work/received") > "$work/client.log" 2>&1
  local status=$?
  kill $waiter; wait $waiter
  cmp "$work/sent" "$work/received" >> "$work/client.log" 2>&1
  verdict "rcopy, $1 broker(s)" $status $?
  rm -f "$work/sent" "$work/received"
}
more rcopy-file slow rcopy

# Package qemu-system-x86: the memory of a machine after its migration is what it was before.
qemu_migration() {
  local side address
  side=$(side_of "$1") address=$(address_of "$1")
  rm -f "$work"/{qmp,memory}.*
  local machine="qemu-system-x86_64 -accel tcg -M pc -m 64 -display none -nodefaults -vga none"
  (launch "$side" $machine -qmp "unix:$work/qmp.to,server=on,wait=off" -incoming "rdma:$address:4444") \
    > "$work/server.log" 2>&1 &
  local to=$!
  (launch near $machine -qmp "unix:$work/qmp.from,server=on,wait=off") > "$work/client.log" 2>&1 &
  local from=$!
  /usr/bin/python3 "$here/qemu_migrate.py" "$work" "rdma:$address:4444" >> "$work/client.log" 2>&1
  local status=$?
  kill $from $to; wait $from $to
  cmp "$work/memory.from" "$work/memory.to" >> "$work/client.log" 2>&1
  verdict "QEMU's live migration, $1 broker(s)" $status $?
  rm -f "$work"/memory.*
}
more qemu-migration slow qemu-system-x86_64

# The broker dies in the middle, and the programs finish. The last of all, because it needs new brokers.
broker_death() {
  local side address
  side=$(side_of "$1") address=$(address_of "$1")
  (launch "$side" ib_send_bw -R -D 3) > "$work/server.log" 2>&1 &
  local waiter=$!
  head_start
  (launch near ib_send_bw -R -D 3 "$address") > "$work/client.log" 2>&1 &
  local client=$!
  sleep 1.5
  kill -9 "${broker[near]}" "${broker[far]}"
  wait "${broker[near]}" "${broker[far]}" 2> /dev/null
  wait $client
  local status=$?
  wait $waiter
  verdict "ib_send_bw outlives the broker, $1 broker(s)" $status $?
  start_brokers
}
more broker-death slow ib_send_bw
