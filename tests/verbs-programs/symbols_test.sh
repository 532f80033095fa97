#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Every public function of the installed libibverbs is either ours, or on the list of those that the real library may
# serve because they never look into an object. A function on neither list would crash the program that calls it.
# The library needs nothing that would come first in the symbol search of every program.
# usage: symbols_test.sh LIBRARY [REAL]    REAL: another version of libibverbs than the one that LIBRARY was built for
set -eu
library=$1
here=$(dirname "$0")
work=$(mktemp -d)
real=$(readelf -d "$library" | sed -n 's/.*NEEDED.*\[\(\/.*libibverbs\.so\.1\)\]/\1/p')
real=${2:-$real}
[ -n "$real" ] || { echo "the library does not need the real libibverbs by its path" >&2; exit 1; }

# Names with their default version; old versions are those of programs from before 2008.
exported() { nm -D --defined-only "$1" | awk '$2 != "A" {print $3}' | grep -v '[^@]@[^@]' | sed 's/@@/ /'; }
exported "$real" | grep -v PRIVATE | awk '{print $1}' | sort -u > "$work/real"
trap 'rm -rf "$work"' EXIT
exported "$library" | awk '{print $1}' | sort -u > "$work/ours"
grep -v '^#' "$here/passed_to_libibverbs.txt" | sort -u > "$work/passed"

bad=0
for name in $(sort -u "$work/ours" "$work/passed" | comm -23 "$work/real" -); do
  echo "$name of $real is on neither list: define it in verbs-lib, or add it to passed_to_libibverbs.txt" >&2
  bad=1
done
# The same version, else a program finds the real function. Functions of newer versions are only ours.
exported "$real" | grep -v PRIVATE | sort > "$work/real"
for entry in $(exported "$library" | grep ' ' | grep -v PRIVATE | tr ' ' '@'); do
  grep -q "^${entry%@*} " "$work/real" || grep -q " ${entry#*@}$" "$work/real" || continue
  grep -qx "$(echo "$entry" | tr '@' ' ')" "$work/real" ||
    { echo "$entry is not what $real exports; correct libibverbs.map" >&2; bad=1; }
done
grep '@@IBVERBS\|^' "$work/ours" | grep -q '^ibv_get_device_list$' || { echo "the library exports nothing" >&2; bad=1; }

allowed='libc.so.6|libm.so.6|ld-linux.*|/.*libibverbs.so.1'
for needed in $(readelf -d "$library" | sed -n 's/.*NEEDED.*\[\(.*\)\]/\1/p'); do
  echo "$needed" | grep -Eqx "$allowed" || { echo "the library must not need $needed" >&2; bad=1; }
done
exit $bad
