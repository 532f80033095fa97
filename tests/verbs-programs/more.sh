# SPDX-License-Identifier: Apache-2.0
# Sourced by run.sh: programs that are not a pair of one command each. Each function takes WHERE, one or two.

side_of() { [ "$1" = two ] && echo far || echo near; }
address_of() { [ "$1" = two ] && echo "$far" || echo "$near"; }
# more NAME SPEED PROGRAM...: runs the function NAME on one broker and over two when the programs are there.
more() {
  selected "$1" "$2" || return
  local program
  for program in "${@:3}"; do
    installed "$program" || { missing=$((missing + 1)); echo "-     $1: $program is not installed"; return; }
  done
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

# Sockets of Python become rsockets (librspreload, package librdmacm1). The client compares each answer.
python_sockets() {
  cat > "$work/server.py" <<'END'
import socket, sys
server = socket.socket()
server.bind((sys.argv[1], 7555))
server.listen(1)
peer, _ = server.accept()
while data := peer.recv(1 << 16):
    peer.sendall(data)
END
  cat > "$work/client.py" <<'END'
import os, socket, sys
peer = socket.create_connection((sys.argv[1], 7555))
for size in (1, 100, 4096, 50000, 1 << 20):
    sent = os.urandom(size)
    got = b""
    for at in range(0, size, 65536):
        peer.sendall(sent[at:at + 65536])
        while len(got) < min(size, at + 65536):
            got += peer.recv(1 << 16)
    assert got == sent, size
peer.close()
END
  local as="$as --sockets"
  (launch "$(side_of "$1")" /usr/bin/python3 "$work/server.py" "$(address_of "$1")") > "$work/server.log" 2>&1 &
  local waiter=$! status
  head_start
  # A connection that is no RDMA connection would be in the table of TCP.
  (launch near /usr/bin/python3 "$work/client.py" "$(address_of "$1")") > "$work/client.log" 2>&1
  status=$?
  wait $waiter
  verdict "python's sockets, $1 broker(s)" $status $?
}
more python-sockets quick /usr/bin/python3

# 8 processes add 1 to one word, together a million times, or each as often as NDBROKER_VERBS_ADDS says; its owner finds the
# exact sum. Over two brokers half of the processes are on the host of the word and half on the other one.
fetch_add() {
  local times=${NDBROKER_VERBS_ADDS:-125000} side address where=$1 i status=0
  local -a clients=()
  side=$(side_of "$where") address=$(address_of "$where")
  (patience=$((120 + times / 1000)) launch "$side" "$build/bin/verbs_fetch_add" "$address" 8 $times serve) > "$work/server.log" 2>&1 &
  local waiter=$!
  head_start
  : > "$work/client.log"
  for i in 1 2 3 4 5 6 7 8; do
    [ "$where" = two ] && { [ $i -le 4 ] && side=far || side=near; }
    (patience=$((120 + times / 1000)) launch "$side" "$build/bin/verbs_fetch_add" "$address" 8 $times) >> "$work/client.log" 2>&1 & clients+=($!)
  done
  for i in "${clients[@]}"; do wait "$i" || status=1; done
  wait $waiter
  verdict "8 processes fetch and add, $where broker(s)" $status $?
}
more fetch-add slow "$build/bin/verbs_fetch_add"

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

# Packages openmpi-bin and libopenmpi-dev, UCX over rc_verbs: a ring of 4 ranks, from 1 byte to 1 MiB, checked. Over two
# brokers 2 ranks are in each namespace. Two daemons of Open MPI on one host would write the same file of its component
# rtc/hwloc at the same time, and crash.
mpi_ring() {
  local ring="$work/mpi_ring" name
  [ -x "$ring" ] || mpicc.openmpi -O2 -o "$ring" "$here/mpi_ring.c" || { verdict "Open MPI" 1; return; }
  cat > "$work/agent" <<END
#!/bin/bash
# In the place of ssh: a "host" is a namespace.
[ "\$1" = far ] && shift && exec nsenter --target $second --net env NDBROKER_DIR=$work/far sh -c "\$*"
shift; exec sh -c "\$*"
END
  chmod +x "$work/agent"
  : > "$work/server.log"
  local -a export=() hosts=(--host near:4)
  [ "$1" = two ] && hosts=(--host near:2,far:2)
  while IFS= read -r name; do export+=(-x "$name"); done < <(NDBROKER_DIR=$work/near "$ndctl" env)
  NDBROKER_DIR=$work/near timeout 100 mpirun.openmpi --allow-run-as-root --oversubscribe "${hosts[@]}" \
    --mca plm_rsh_agent "$work/agent" --mca rtc ^hwloc --mca pml ucx --mca osc ucx --mca btl '^openib,vader,tcp,uct' \
    "${export[@]}" -x UCX_TLS=rc_v,self "$ring" > "$work/client.log" 2>&1
  verdict "Open MPI's ring, $1 broker(s)" $?
}
more mpi-ring slow mpicc.openmpi mpirun.openmpi

# Package mpich, UCX over rc_verbs: the same ring. Each rank connects a queue pair with itself, too. A "host" is the address
# of a namespace.
mpich_ring() {
  local ring="$work/mpich_ring"
  [ -x "$ring" ] || mpicc.mpich -O2 -o "$ring" "$here/mpi_ring.c" || { verdict "MPICH" 1; return; }
  cat > "$work/agent" <<END
#!/bin/bash
# In the place of ssh.
[ "\$1" = -x ] && shift
[ "\$1" = $far ] && shift && exec nsenter --target $second --net sh -c "\$*"
shift; exec sh -c "\$*"
END
  cat > "$work/rank" <<END
#!/bin/bash
[ \$(readlink /proc/self/ns/net) = $(readlink /proc/$second/ns/net) ] && export NDBROKER_DIR=$work/far
exec "$ring"
END
  chmod +x "$work/agent" "$work/rank"
  : > "$work/server.log"
  local hosts=$near:4
  [ "$1" = two ] && hosts=$near:2,$far:2
  (patience=100 launch near env UCX_TLS=rc_v,self mpiexec.hydra -launcher ssh -launcher-exec "$work/agent" -localhost $near \
    -hosts $hosts -n 4 "$work/rank") > "$work/client.log" 2>&1
  verdict "MPICH's ring, $1 broker(s)" $?
}
more mpich-ring slow mpicc.mpich mpiexec.hydra

# Until the client of a row is connected.
await_connection() {
  local i
  for i in $(seq 400); do
    NDBROKER_DIR=$work/near "$ndctl" -o csv connection list | grep -q ",Connected,$near:.*,active," && break
    sleep 0.05
  done
  sleep 0.1
}

# The broker dies in the middle, and the programs finish. The last of all, because it needs new brokers.
broker_death() {
  local side address
  side=$(side_of "$1") address=$(address_of "$1")
  (launch "$side" ib_send_bw -R -D 3) > "$work/server.log" 2>&1 &
  local waiter=$!
  head_start
  (launch near ib_send_bw -R -D 3 "$address") > "$work/client.log" 2>&1 &
  local client=$!
  await_connection
  sleep 1
  kill -9 "${broker[near]}" "${broker[far]}"
  wait "${broker[near]}" "${broker[far]}" 2> /dev/null
  wait $client
  local status=$?
  wait $waiter
  verdict "ib_send_bw outlives the broker, $1 broker(s)" $status $?
  start_brokers
}
more broker-death slow ib_send_bw

# A connection of rdma_cm outlives its broker, and the new broker tells nobody that it ended. rping compares its data, as often as
# NDBROKER_VERBS_PINGS says.
rping_restart() {
  # On a busy machine each ping waits for a processor four times.
  local side address pings=${NDBROKER_VERBS_PINGS:-20000} patience=$((patience * 4))
  side=$(side_of "$1") address=$(address_of "$1")
  (launch "$side" rping -s -a "$address" -C $pings -V) > "$work/server.log" 2>&1 &
  local waiter=$!
  head_start
  (launch near rping -c -a "$address" -C $pings -V) > "$work/client.log" 2>&1 &
  local client=$!
  await_connection
  kill -9 "${broker[near]}" "${broker[far]}"
  wait "${broker[near]}" "${broker[far]}" 2> /dev/null
  kill -0 $client; local early=$?  # It had ended before the broker.
  start_brokers
  wait $client
  local status=$?
  wait $waiter
  verdict "rping goes on with the next broker, $1 broker(s)" $status $? $early
}
more rping-restart slow rping
