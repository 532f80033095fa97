#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# symbols_test.sh LIBRARY: the library has every symbol of libndbroker1.symbols, and symbols.sh refuses one that lacks a
# symbol, by name.
set -eu
here=$(dirname "$(readlink -f "$0")")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$here/symbols.sh" "$1" 0.0.0 "$here/libndbroker1.symbols" > "$work/symbols"
known=$(grep -c '^ ' "$here/libndbroker1.symbols")
[ "$known" -gt 100 ] || { echo "the baseline has only $known symbols" && exit 1; }
[ "$(grep -vc ' 0\.0\.0$' "$work/symbols")" -gt "$known" ] || { echo "a known symbol got a new version" && exit 1; }
{ cat "$here/libndbroker1.symbols" && echo " _ZN2nd7Adapter4GoneEv@NDBROKER_0 0.1.0"; } > "$work/more"
if "$here/symbols.sh" "$1" 0.0.0 "$work/more" > /dev/null 2> "$work/error"; then
  echo "a vanished symbol was not noticed" && exit 1
fi
grep -q 'nd::Adapter::Gone()' "$work/error"
echo "$known symbols"
