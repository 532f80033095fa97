#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The provider over Network Direct adapters under Wine, without hardware: broker B has a soft adapter, and broker A one
# adapter more, which it has through ndbrokernd.dll, the DLL of broker B, loaded as a vendor's. Programs of broker A exchange
# data, reject, are killed, and go on without their broker. Then DLLs that are missing or fault. Prints a table; exit 0: all
# passed.
# usage: tests/windows/networkdirect.sh
set -euo pipefail
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../.."
deploy/windows/build.sh ndbrokerd nd_pair nd_spi_dll ndbroker-ndprobe faulting_nd
# shellcheck source=tests/windows/wine_prefix.sh
source tests/windows/wine_prefix.sh
failed=0
dll=$(echo "Z:$(readlink -f "$build/bin")" | tr / '\\')
# The programs and the DLL of broker B in them find broker B here.
export NDBROKER_DIR='C:\b'

# await FILE PATTERN: at most a minute.
await() {
  local _
  for _ in $(seq 600); do
    ! grep -qa "$2" "$1" 2> /dev/null || return 0
    sleep 0.1
  done
  echo "not within a minute: $2 in $1" >&2
  return 1
}
# broker NAME PATTERN: starts it with the configuration of standard input; returns when its log has the pattern.
broker() {
  local log=$build/networkdirect-$1.log
  rm -f "$log"
  cat > "$WINEPREFIX/$1.toml"
  wine "$build/bin/ndbrokerd.exe" --config "Z:$WINEPREFIX/$1.toml" --dir "C:\\$1" --log-level debug < /dev/null > "$log" 2>&1 &
  broker_pid=$!
  await "$log" "$2"
}
row() {
  local result=ok
  [ "$2" -eq 0 ] || { result="FAILED ($3)" && failed=1; }
  printf '%-40s %s %s\n' "$1" "$(grep -av '^round\|^waiting\|^nd_pair' "$3" | tail -1 | tr -d '\r' || true)" "$result"
}
# Directly, so that its process is the program. It ends by itself, a minute after its peer at the latest.
nd_pair() { NDBROKER_PAIR_BROKER='C:\a' NDBROKER_PAIR_ADAPTER=nd0 exec wine "$build/bin/nd_pair.exe" "$@" < /dev/null; }
# two NAME LISTENING-COMMAND CONNECTING-COMMAND PORT [ROUNDS]: starts both. Sets log, listener and connector.
two() {
  log=$build/networkdirect-$1
  (nd_pair "$2" "127.0.0.3:$4" "${@:5}") > "$log-listen.log" 2>&1 &
  listener=$!
  await "$log-listen.log" '^waiting' || true
  (nd_pair "$3" "127.0.0.3:$4" "${@:5}") > "$log.log" 2>&1 &
  connector=$!
}
# both NAME ...: the same, until both have ended.
both() {
  local status=0
  two "$@"
  wait "$listener" || status=$?
  wait "$connector" || status=$?
  [ "$status" -eq 0 ] || cat "$log-listen.log" "$log.log" >&2
  row "$1" "$status" "$log.log"
}

broker b '^READY' << 'CONFIG'
[[adapter]]
addresses = ["127.0.0.3"]
tcp-port = 4981
CONFIG
with_dll() {
  cat << CONFIG
[[adapter]]
addresses = ["127.0.0.2"]
tcp-port = $1
[networkdirect]
enabled = true
dll = '$dll\\$2'
CONFIG
}
broker a 'adapter.added nd0' < <(with_dll 4982 ndbrokernd.dll)
first=$broker_pid
both exchange listen connect 7601
both rejected reject rejected 7602
both port-serves-again listen connect 7601

# One of two programs is killed: the other is told.
export NDBROKER_PAIR_PACE=20
two killed listen connect 7603 2000
status=0
await "$log.log" '^round 20' || status=1
kill -9 "$listener" && wait "$listener" 2> /dev/null || true
wait "$connector" || [ $? -eq 3 ] || status=1
row killed-program "$status" "$log.log"

# Data goes on without broker A, and the next one takes over.
two broker-killed listen connect 7604 400
status=0
await "$log.log" '^round 20' || status=1
kill -9 "$first" && wait "$first" 2> /dev/null || true
broker a 'adapter.added nd0' < <(with_dll 4982 ndbrokernd.dll) || status=1
wait "$listener" || status=1
wait "$connector" || status=1
row data-goes-on-without-the-broker "$status" "$log.log"
unset NDBROKER_PAIR_PACE
both new-broker-serves listen connect 7605

port=4982
for name in missing faulting_nd; do
  status=0
  port=$((port + 1))
  broker "$name" 'adapter.problem\|adapter.added' < <(with_dll "$port" "$name.dll") || status=1
  await "$build/networkdirect-$name.log" '^READY' || status=1
  grep -a 'nd0' "$build/networkdirect-$name.log" | tail -1 > "$build/networkdirect-$name-dll.log" || true
  kill -0 "$broker_pid" || status=1
  row "$name-dll" "$status" "$build/networkdirect-$name-dll.log"
done
exit "$failed"
