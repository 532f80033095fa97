#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# usage: restart_delay_test.sh PROGRAM: ExecStopPost= of the unit, with a sleep that only writes down its time.
set -euo pipefail
program=$(readlink -f "$1")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/bin"
cat > "$work/bin/sleep" << END
#!/bin/sh
echo "\$1" >> "$work/slept"
END
chmod +x "$work/bin/sleep"

# ends RESULT...: the broker ends with these results, one after another. Prints the delays.
ends() {
  : > "$work/slept"
  local result
  for result in "$@"; do
    PATH=$work/bin:$PATH SERVICE_RESULT=$result RUNTIME_DIRECTORY=$work:$work/client "$program" > /dev/null 2>&1
  done
  paste -sd ' ' "$work/slept"
}
failed=0
expect() {
  [ "$2" = "$3" ] && echo "ok    $1" && return
  echo "FAIL: $1: delays '$2', expected '$3'"
  failed=1
}
expect "five failures in a row do not wait" "$(ends signal signal signal signal signal)" ""
expect "those after them wait longer and longer" "$(ends signal exit-code signal signal signal signal)" "1 2 4 8 15 15"
expect "an orderly end does not wait" "$(ends success)" ""
expect "failures before an orderly end do not count" "$(ends signal signal signal signal signal success signal)" ""
echo "no numbers" > "$work/failures"
expect "a damaged file counts as none" "$(ends signal signal signal signal signal)" ""
exit $failed
