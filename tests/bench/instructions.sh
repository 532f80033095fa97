#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Prints the instructions that one message costs in the soft provider, counted by valgrind: both ends, from posting to
# both completions. Compare two builds with it.
# usage: tests/bench/instructions.sh [BUILD]
set -euo pipefail
case ${1:-} in -h | --help) sed -n '3,5s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" && exit 0 ;; esac
build=${1:-$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../../build/release}
program=$build/bin/qp_steps_bench
[ -x "$program" ] || { echo "no $program: build it with ninja -C $build qp_steps_bench" >&2; exit 2; }
command -v valgrind > /dev/null || { echo "valgrind is missing: apt-get install valgrind" >&2; exit 2; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
count() {
  valgrind --tool=callgrind --callgrind-out-file="$work/out" "$program" "$@" 2>&1 | sed -n 's/.*Collected : //p'
}
for link in shared ring iwarp; do
  for operation in send write read; do
    for size in 8 64 4096; do
      few=$(count "$link" "$operation" "$size" 1000)
      many=$(count "$link" "$operation" "$size" 3000)
      printf '%-6s %-5s %4d bytes %6d\n' "$link" "$operation" "$size" $(((many - few) / 2000))
    done
  done
done
