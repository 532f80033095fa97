#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The whole suite with its full counts, one part at a time, and the result in the table of docs/proof.md.
# usage: tests/conformance/full.sh [--no-record] [BUILD-DIRECTORY]   (default build/release, built)
# Parts that passed in BUILD-DIRECTORY/conformance-full for the same programs are not run again; remove that folder to
# begin anew. Exit 0: each number passed or is excepted.
set -euo pipefail
here=$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")
top=$(cd "$here/../.." && pwd)
record=1
[ "${1:-}" != --no-record ] || { record= && shift; }
build=$(readlink -m "${1:-$top/build/release}")
reports=$build/conformance-full
mkdir -p "$reports"
programs=$(cat "$build"/bin/{nd_conformance,nd_actor,nd_probe,ndbrokerd} | sha256sum | cut -c1-12)
[ "$(cat "$reports/programs" 2> /dev/null)" = "$programs" ] || rm -f "$reports"/*
echo "$programs" > "$reports/programs"
groups=()
for file in "$here"/d*_test.cc; do
  group=$(basename "$file" | cut -c1-3)
  [[ " ${groups[*]} " == *" $group "* ]] || groups+=("$group")
done
for transport in Local Iwarp; do
  for group in "${groups[@]}"; do
    part=$group.$transport
    [ ! -e "$reports/$part.passed" ] || continue
    began=$SECONDS
    if NDBROKER_FULL=1 "$build/bin/nd_conformance" --gtest_filter="${group^^}*/$transport" \
      --gtest_output="json:$reports/$part.json" > "$reports/$part.log" 2>&1 < /dev/null; then
      echo $((SECONDS - began)) > "$reports/$part.passed"
      echo "passed  $part $((SECONDS - began)) s"
    else
      echo "FAILED  $part, see $reports/$part.log"
      grep -E '^\[  FAILED  \].*/' "$reports/$part.log" | sort -u | head || true
    fi
  done
done
verdict=0
summary=$("$here/summary.sh" --whole "$reports") || verdict=1
echo "$summary"
for transport in Local Iwarp; do
  for group in "${groups[@]}"; do [ -e "$reports/$group.$transport.passed" ] || verdict=1; done
done
[ "$verdict" = 0 ] || { echo "not every part passed"; exit 1; }
[ -n "$record" ] || exit 0
seconds=$(cat "$reports"/*.passed | awk '{ s += $1 } END { print s }')
counts=$(grep -E '^(Local|Iwarp): ' <<< "$summary" | sed -e 's/ skipped, 0 failed, 0 not run/ skipped/' -e 's/, 0 skipped//' | paste -sd';' | sed 's/;/; /g')
"$top/tests/figures/figures.py" --record "conformance (" "$(date -u +%F), \`tests/conformance/full.sh\` at $(git -C "$top" describe --always --dirty), full counts, one part after the other, $seconds s on $(nproc) cores: $counts"
