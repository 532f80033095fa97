#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# symbols.sh LIBRARY VERSION KNOWN: the symbols file of libndbroker1. Symbols of the file KNOWN keep the version in
# which they came, new ones get VERSION. A symbol of KNOWN that the library lacks is an error: programs that use it
# would not start any more, so the library needs a new number (SOVERSION) and a new package name.
set -eu
library=$1 version=$2 known=$3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
readelf -W --dyn-syms "$library" | awk '$7 != "UND" && $5 != "LOCAL" && $8 ~ /@@/ { sub("@@", "@", $8); print $8 }' |
  sort -u > "$work/have"
sed -n 's/^ \([^ ]*\) .*/\1/p' "$known" | sort -u > "$work/known"
missing=$(comm -13 "$work/have" "$work/known")
if [ -n "$missing" ]; then
  echo "symbols.sh: libndbroker.so.1 has lost symbols; programs that use them would not start:" >&2
  echo "$missing" | c++filt | sed 's/^/  /' >&2
  exit 1
fi
echo "libndbroker.so.1 libndbroker1 #MINVER#"
while read -r symbol; do
  line=$(grep -F " $symbol " "$known" || true)
  echo "${line:- $symbol $version}"
done < "$work/have"
