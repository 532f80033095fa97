#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Prints the module definition of the client library for Windows: each function of the archives that the version script
# of Linux makes public.
# usage: exports.sh MAP NM CXXFILT ARCHIVE...
set -eu
map=$1 nm=$2 filt=$3
shift 3
# "nd::Adapter::*;" is every name that begins with nd::Adapter::
public=$(sed -n 's/^ *\(nd::[A-Za-z:]*\)\*;$/\1/p' "$map" | paste -sd'|')
[ -n "$public" ] || { echo "exports.sh: $map names nothing public" >&2; exit 1; }
echo EXPORTS
# c++filt leaves what is behind a name alone: each line has the mangled name, a tab and the readable one.
"$nm" --defined-only --extern-only "$@" | awk 'NF == 3 && $2 ~ /[TRDBVW]/ { print substr($3, 1, 1) "\b" substr($3, 2) "\t" $3 }' | sort -u |
  "$filt" | tr -d '\b' | awk -F '\t' -v public="^($public)" '$2 ~ public { print "  " $1 }'
