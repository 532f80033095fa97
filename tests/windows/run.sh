#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds for Windows and runs each test program under Wine, in a Wine prefix of its own. Prints a table; exit 0: all
# passed. usage: tests/windows/run.sh
set -euo pipefail
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../.."
deploy/windows/build.sh
build=build/windows
WINEPREFIX=$(mktemp -d)
export WINEPREFIX DISPLAY='' WINEDEBUG=-all
trap 'wineserver -k 2> /dev/null || true; wineserver -w 2> /dev/null || true; rm -rf "$WINEPREFIX"' EXIT
# Programs that start before the prefix is complete fail.
wineboot -i > "$build/wineboot.log" 2>&1
wineserver -w
failed=0
printf '%-24s %6s %7s %8s %s\n' program tests passed skipped result
while read -r name; do
  log=$build/$name.log
  status=0
  timeout 120 wine "$build/bin/$name.exe" < /dev/null > "$log" 2>&1 || status=$?
  ran=$(sed -n 's/^\[=*\] \([0-9]*\) tests\{0,1\} from .* ran\..*/\1/p' "$log" | tail -1)
  passed=$(sed -n 's/^\[  PASSED  \] \([0-9]*\) test.*/\1/p' "$log" | tail -1)
  skipped=$(sed -n 's/^\[  SKIPPED \] \([0-9]*\) tests\{0,1\}.*/\1/p' "$log" | tail -1)
  result=ok
  [ "$status" -eq 0 ] && [ -n "$ran" ] && [ "$ran" = "$((${passed:-0} + ${skipped:-0}))" ] || { result="FAILED (exit $status, $log)" && failed=1; }
  printf '%-24s %6s %7s %8s %s\n' "$name" "${ran:--}" "${passed:--}" "${skipped:--}" "$result"
done < "$build/windows-tests.txt"
exit "$failed"
