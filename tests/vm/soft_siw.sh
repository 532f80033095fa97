#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# soft_siw.sh FOLDER BIN PORT: this project's userspace iWARP on the host against the kernel's soft-iWARP in the
# virtual machine of FOLDER (started with --forward PORT:7174), which runs kernel_peer, an ordinary rdma_cm program.
# Every scenario of soft_peer.cc, each side active and passive, CRC on and off. Exit code: the number of failures.
set -u
HERE=$(cd "$(dirname "$0")" && pwd)
FOLDER=$1 BIN=$2 PORT=$3
SCENARIOS="exchange reject our-bad-write our-bad-read their-bad-write their-bad-read"
HOST=$FOLDER/host FAILED=0 BROKERS=()
mkdir -p "$HOST"
trap '[ ${#BROKERS[@]} = 0 ] || kill "${BROKERS[@]}" 2>/dev/null' EXIT

# Brokers that connect have another address than 127.0.0.1, because a broker never uses TCP to its own address.
broker() { # name address crc
  cat > "$HOST/$1.toml" <<END
[broker]
directory = "$HOST/$1"
log-level = "warning"
[verbs]
enabled = false
[[adapter]]
name = "soft0"
addresses = ["$2"]
mode = "tcp"
crc = $3
END
  "$BIN/ndbrokerd" --config "$HOST/$1.toml" > "$HOST/$1.out" 2> "$HOST/$1.log" &
  BROKERS+=($!)
  for _ in $(seq 100); do grep -q READY "$HOST/$1.out" && return; sleep 0.1; done
  cat "$HOST/$1.log"
}
until_listening() { # file
  for _ in $(seq 300); do grep -q listening "$1" 2>/dev/null && return; sleep 0.1; done
}
in_vm() { "$HERE/vm.sh" run "$FOLDER" "$1"; }

for crc in true false; do
  in_vm "echo $([ $crc = true ] && echo 1 || echo 0) > /sys/module/siw/parameters/mpa_crc_required"
  broker "active-$crc" 127.0.0.2 $crc
  broker "passive-$crc" 127.0.0.1 $crc
  echo "-- CRC $([ $crc = true ] && echo on || echo off)"

  job=$("$HERE/vm.sh" begin "$FOLDER" "$FOLDER/kernel_peer serve 10.0.2.15 7174 $SCENARIOS")
  until_listening "$FOLDER/jobs/$job.out"
  NDBROKER_DIR=$HOST/active-$crc timeout 600 "$BIN/soft_peer" connect 127.0.0.2 "127.0.0.1:$PORT" $SCENARIOS
  FAILED=$((FAILED + $?))
  for _ in $(seq 100); do [ -e "$FOLDER/jobs/$job.rc" ] && break; sleep 0.1; done
  grep -v listening "$FOLDER/jobs/$job.out"
  FAILED=$((FAILED + $(cat "$FOLDER/jobs/$job.rc" 2>/dev/null || echo 1)))

  : > "$HOST/server"
  NDBROKER_DIR=$HOST/passive-$crc timeout 600 "$BIN/soft_peer" serve 127.0.0.1 "127.0.0.1:$((PORT + 1))" $SCENARIOS \
    > "$HOST/server" 2>&1 &
  server=$!
  until_listening "$HOST/server"
  in_vm "timeout 600 $FOLDER/kernel_peer connect 10.0.2.2 $((PORT + 1)) $SCENARIOS"
  FAILED=$((FAILED + $?))
  wait $server
  FAILED=$((FAILED + $?))
  grep -v listening "$HOST/server"
done
in_vm "echo 0 > /sys/module/siw/parameters/mpa_crc_required"
exit $FAILED
