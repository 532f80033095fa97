#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds for Windows and runs each test program under Wine, in a Wine prefix of its own, then pairs of processes that
# exchange data: over TCP two on Windows and one on Windows with one on Linux, and over shared memory two on Windows, to
# which a third one hands the connection. Then the same through real brokers of both systems (brokers.sh), ends of clients
# and brokers with data under way (kill.sh), brokers and programs that are refused (refusals.sh), ndperf beside that of
# Linux (perf.sh), a program with ndbroker.dll (sdk.sh), the conformance suite (conformance.sh), an adapter through its
# Network Direct DLL (networkdirect.sh), the Network Direct provider (nd.sh), Microsoft's programs over it where their
# sources can be had (ms.sh), and the lives of the service (service.sh) and of the installer (installer.sh). Prints a
# table; exit 0: all passed.
# usage: tests/windows/run.sh [PART...]     default: all of
#   programs pairs brokers kill refusals perf sdk conformance networkdirect nd ms service installer
set -euo pipefail
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../.."
deploy/windows/build.sh
source deploy/setup.sh
build_targets ON exchange nd_pair ndbrokerd ndperf
linux=$build
source tests/windows/wine_prefix.sh
declare -A broker_pid=()
trap 'kill "${broker_pid[@]}" 2> /dev/null || true; end_wine' EXIT
failed=0
parts=" $* "
wants() { [ "$parts" = '  ' ] || [[ $parts == *" $1 "* ]]; }

programs() {
  printf '%-24s %6s %7s %8s %s\n' program tests passed skipped result
  while read -r name; do
    log=$build/$name.log
    status=0
    timeout 1800 wine "$build/bin/$name.exe" < /dev/null > "$log" 2>&1 || status=$?
    ran=$(sed -n 's/^\[=*\] \([0-9]*\) tests\{0,1\} from .* ran\..*/\1/p' "$log" | tail -1)
    passed=$(sed -n 's/^\[  PASSED  \] \([0-9]*\) test.*/\1/p' "$log" | tail -1)
    skipped=$(sed -n 's/^\[  SKIPPED \] \([0-9]*\) tests\{0,1\}.*/\1/p' "$log" | tail -1)
    result=ok
    [ "$status" -eq 0 ] && [ -n "$ran" ] && [ "$ran" = "$((${passed:-0} + ${skipped:-0}))" ] || { result="FAILED (exit $status, $log)" && failed=1; }
    printf '%-24s %6s %7s %8s %s\n' "$name" "${ran:--}" "${passed:--}" "${skipped:--}" "$result"
  done < "$build/windows-tests.txt"
}

wine_path() { echo "Z:$(readlink -m "$1" | tr / '\\')"; }
on_windows() { timeout 300 wine "$build/bin/exchange.exe" "$@"; }
on_linux() { timeout 300 "$linux/bin/exchange" "$@"; }
# pair NAME LISTENER CONNECTOR
pair() {
  local log=$build/$1.log port=$WINEPREFIX/$1.port result=ok listener
  "$2" listen "$port" < /dev/null > "$log" 2>&1 &
  listener=$!
  for _ in $(seq 600); do
    [ ! -e "$port" ] || break
    sleep 0.1
  done
  "$3" connect "$(cat "$port" 2> /dev/null || true)" < /dev/null >> "$log" 2>&1 || result=FAILED
  wait "$listener" || result=FAILED
  report "$1"
}
report() {
  [ "$result" = ok ] || { result="FAILED ($log)" && failed=1; }
  printf '%-46s %s %s\n' "$1" "$(sort -u "$log" | tail -1 | tr -d '\r')" "$result"
}
hand_over() { timeout 300 wine "$build/bin/hand_over.exe" "$@" < /dev/null; }

pairs() {
  echo
  pair windows-with-windows on_windows on_windows
  pair windows-listens-linux-connects on_windows on_linux
  pair linux-listens-windows-connects on_linux on_windows

  log=$build/shared-memory.log
  result=ok
  hand_over give "$WINEPREFIX/lane" > "$log" 2>&1 &
  broker=$!
  hand_over take "$WINEPREFIX/lane" >> "$log" 2>&1 &
  client=$!
  hand_over take "$WINEPREFIX/lane" >> "$log" 2>&1 || result=FAILED
  wait "$client" || result=FAILED
  wait "$broker" || result=FAILED
  report shared-memory-between-windows
}

brokers() {
  echo
  broker a windows 127.0.0.2 4971
  broker b windows 127.0.0.3 4971
  broker l linux 127.0.0.4 4971
  exchange broker-of-windows a a 127.0.0.2:7471
  exchange brokers-of-windows b a 127.0.0.3:7472
  exchange windows-broker-with-linux-client-broker a l 127.0.0.2:7473
  exchange linux-broker-with-windows-client-broker l a 127.0.0.4:7474
  exchange network-direct-program-listens-linux-connects nd:a l 127.0.0.2:7475
  exchange linux-listens-network-direct-program-connects l nd:a 127.0.0.4:7476
  exchange network-direct-program-with-windows-client nd:b a 127.0.0.3:7477
  administration
}

source tests/windows/brokers.sh
source tests/windows/kill.sh
source tests/windows/refusals.sh
source tests/windows/perf.sh
source tests/windows/sdk.sh
source tests/windows/service.sh
source tests/windows/installer.sh
source tests/windows/admin.sh
# The brokers of a part end with it: some of them keep the Wine server busy (docs/windows.md).
end_brokers() {
  [ ${#broker_pid[@]} -eq 0 ] || kill "${broker_pid[@]}" 2> /dev/null || true
  wait "${broker_pid[@]}" 2> /dev/null || true
  broker_pid=()
}
for part in programs pairs brokers kills refusals perf sdk; do
  ! wants "${part/kills/kill}" || "$part"
  end_brokers
done
# Each in a Wine prefix of its own.
! wants conformance || tests/windows/conformance.sh || failed=1
! wants networkdirect || tests/windows/networkdirect.sh || failed=1
! wants nd || tests/windows/nd.sh || failed=1
! wants ms || tests/windows/ms.sh || [ $? -eq 77 ] || failed=1
! wants service || service_life
! wants installer || installer_life
exit "$failed"
