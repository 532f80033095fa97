#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The Network Direct provider under Wine: OVERLAPPED requests, rules and statuses with a broker, and data between two processes,
# through one broker and through two. Prints a table; exit 0: all passed.
# usage: tests/windows/nd.sh
set -euo pipefail
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../.."
# shellcheck source=tests/windows/nd_broker.sh
source tests/windows/nd_broker.sh
failed=0
# row NAME STATUS LOG: with the last line of the log.
row() {
  local result=ok
  [ "$2" -eq 0 ] || { result="FAILED (exit $2, $3)" && failed=1; }
  printf '%-36s %-52s %s\n' "$1" "$(tail -1 "$3" | tr -d '\r')" "$result"
}
# step NAME SECONDS PROGRAM ARGUMENTS...
step() {
  local status=0 log=$build/nd-$1.log
  run_wine "$2" "${@:3}" > "$log" 2>&1 || status=$?
  row "$1" "$status" "$log"
}
# exchange NAME LISTENER-BROKER ADDRESS CONNECTOR-BROKER ADDRESS DLL...
exchange() {
  local status=0 log=$build/nd-$1.log listener port=$((++last_port))
  NDBROKER_DIR="C:\\broker-$2" run_wine 300 "$build/bin/nd_exchange.exe" listen "$3" "$port" "${@:6}" > "$log" 2>&1 &
  listener=$!
  for _ in $(seq 300); do
    ! grep -qa '^waiting' "$log" || break
    sleep 0.1
  done
  NDBROKER_DIR="C:\\broker-$4" run_wine 300 "$build/bin/nd_exchange.exe" connect "$5" "$3" "$port" "${@:6}" >> "$log" 2>&1 ||
    status=$?
  wait "$listener" || status=$?
  row "$1" "$status" "$log"
}
last_port=7600
dll=$(windows_path "$build/bin/ndbrokernd.dll")
export NDBROKER_TEST_DLL=$dll NDBROKER_TEST_ADDRESS=$address

step overlapped 300 "$build/bin/nd_spi_overlapped_test.exe"
# Brokers of several hosts have one TCP port.
start_broker other 127.0.0.2 4991
start_broker one "$address" 4991
step statuses 300 "$build/bin/nd_dll_test.exe"
exchange dll-by-path one "$address" one "$address" "$dll"
exchange between-two-brokers other 127.0.0.2 one "$address" "$dll"
step catalogue-install 60 "$build/bin/nd_catalogue.exe" install "$dll"
exchange dll-from-the-catalogue one "$address" one "$address"
step catalogue-remove 60 "$build/bin/nd_catalogue.exe" remove
exit "$failed"
