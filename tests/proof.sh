#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The proofs that take too long for every test run. docs/proof.md has the last full result.
# usage: tests/proof.sh [--list] [NAME...]
set -uo pipefail
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/.."
bin=build/release/bin
logs=build/proof
declare -A what=(
  [model]="SPIN with one more peer and a second crash"
  [sim]="ten thousand seeds of the simulator"
  [property]="property tests, a hundred times as many cases"
  [fuzz]="ten million executions of each fuzz target"
  [coverage]="line coverage of the codecs from the corpora alone"
  [lines]="lines and branches of core and codecs by their unit tests"
  [mutants]="a hundred changed decisions of core and codecs, each against the unit tests"
  [crash]="every kill at every step and system call, 10,000 races, in four parts"
  [integrity]="10 GiB of stamped data for each transport and operation kind, bit flips, order"
  [conformance]="the conformance suite with its full counts"
  [teeth]="every bug put back"
  [address]="address, leak and undefined-behaviour sanitizers over every test"
  [thread]="thread sanitizer over client library, rings and service"
  [valgrind]="memcheck over codecs, core and handshakes"
  [lint]="clang-tidy and cppcheck"
)
order=(model sim property fuzz coverage lines mutants crash integrity conformance teeth address thread valgrind lint)
declare -A command=(
  [model]="tests/model/run.sh --large"
  [sim]="$bin/ndsim --seeds 1..10000"
  [property]="for p in codec core receive table; do RC_PARAMS=max_success=10000 $bin/property_\${p}_test || exit 1; done"
  [fuzz]="tests/fuzz/run.sh --fast --runs 10000000"
  [coverage]="tests/fuzz/coverage.sh"
  [lines]="tests/coverage/run.sh"
  [mutants]="tests/mutation/run.py --sample 100"
  [crash]="for f in Races Sweep Kill.*/Local Kill.*/Iwarp; do NDBROKER_FULL=1 $bin/nd_crash --gtest_filter=\"*\$f*\" || exit 1; done"
  [integrity]="env NDBROKER_FULL=1 $bin/nd_integrity"
  [conformance]="tests/conformance/full.sh"
  [teeth]="tests/teeth/run.sh"
  [address]="tests/sanitize.sh address"
  [thread]="tests/sanitize.sh thread"
  [valgrind]="tests/valgrind.sh"
  [lint]="tests/lint.sh"
)
case ${1:-} in
  --list) for name in "${order[@]}"; do printf '%-12s %s\n' "$name" "${what[$name]}"; done && exit 0 ;;
  -h | --help) sed -n '3,4s/^# \{0,1\}//p' "$0" && exit 0 ;;
esac
names=("${@:-${order[@]}}")
[ $# -gt 0 ] || names=("${order[@]}")
for name in "${names[@]}"; do
  [ -n "${what[$name]:-}" ] || { echo "no such part: $name; --list shows them" >&2; exit 2; }
done
mkdir -p "$logs"
failed=0
echo "proof of $(git describe --always --dirty 2> /dev/null || echo '?') on $(date -u +%F), $(nproc) cores"
for name in "${names[@]}"; do
  began=$SECONDS
  if bash -c "${command[$name]}" > "$logs/$name.log" 2>&1 < /dev/null; then verdict=proven; else verdict=FAILED && failed=1; fi
  printf '%-12s %-7s %6d s  %s\n' "$name" "$verdict" $((SECONDS - began)) "$(grep -v '^ *$' "$logs/$name.log" | tail -1 | cut -c1-120)"
done
exit "$failed"
