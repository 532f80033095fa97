#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The tests in an instrumented build.
# usage: tests/sanitize.sh address [--quick | --corpus] | thread
#   address   AddressSanitizer, LeakSanitizer and UndefinedBehaviorSanitizer over every ctest entry but those that
#             measure, start virtual machines, build the tree again or use up every descriptor; --quick: only the
#             remote attack surface (codecs, handshakes, queue pairs, core, simulator) and the corpora; --corpus: only
#             these
#   thread    ThreadSanitizer over client library, rings, service and their dependencies
# Builds in build/asan or build/tsan. Exit 0: no finding.
set -euo pipefail
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/.."
kind=${1:-} quick=${2:-}
jobs=${NDBROKER_JOBS:-$(nproc)}
case $kind$quick in
  address | address--quick | address--corpus) preset=asan ;;
  thread) preset=tsan ;;
  *) sed -n '3,10s/^# \{0,1\}//p' "$0" && exit 2 ;;
esac
build=build/$preset
export ASAN_OPTIONS=detect_leaks=1:detect_stack_use_after_return=1:strict_string_checks=1:abort_on_error=0
export UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1
# Time-outs of the tests, and fewer rounds of the heavy ones.
export NDBROKER_TIME_FACTOR=${NDBROKER_TIME_FACTOR:-4}
export TSAN_OPTIONS="suppressions=$PWD/tests/tsan.supp ignore_noninstrumented_modules=1 halt_on_error=1 second_deadlock_stack=1 die_after_fork=0"

# Single programs instead of ctest entries, so that no other program is built.
pure=(base_test soft_wire_test soft_cm_test soft_qp_test core_rules_test core_table_test core_random_test core_ports_test
  core_listen_test core_connect_test core_lifetime_test core_prepare_test)
threaded=(base_test soft_cm_test soft_qp_test client_test service_test client_e2e_test)

[ -e "$build/build.ninja" ] || cmake --preset "$preset" > "$build.log" 2>&1 || { cat "$build.log" >&2; exit 1; }
# run NAME COMMAND...: prints one line, and the output of the command when it failed.
failed=0
run() {
  local log=$build/$1.log
  shift
  if timeout 1800 "$@" > "$log" 2>&1 < /dev/null; then
    echo "clean   $(basename "$log" .log): $(grep -E '^\[  PASSED  \]|tests passed|^hash=|^[0-9]+ files and ' "$log" | tail -1)"
  else
    failed=$((failed + 1))
    echo "FOUND   $(basename "$log" .log)"
    grep -nE -m 20 'ERROR: |WARNING: ThreadSanitizer|runtime error|SUMMARY|FAILED|invariant' "$log" || tail -20 "$log"
  fi
}
if [ "$kind" = thread ]; then
  ninja -C "$build" -j "$jobs" "${threaded[@]}" ndbrokerd ndctl nd_probe > "$build/build.log" 2>&1 || { tail -30 "$build/build.log"; exit 1; }
  for program in "${threaded[@]}"; do run "$program" "$build/bin/$program" --gtest_brief=1; done
elif [ -n "$quick" ]; then
  mapfile -t fuzz < <(cd tests/fuzz && ls fz_*.cc | sed 's/^fz_\(.*\)\.cc$/fuzz_\1/')
  sim=ndsim
  [ "$quick" = --quick ] || pure=() sim=
  ninja -C "$build" -j "$jobs" "${pure[@]}" "${fuzz[@]}" $sim > "$build/build.log" 2>&1 || { tail -30 "$build/build.log"; exit 1; }
  for program in "${pure[@]}"; do run "$program" "$build/bin/$program" --gtest_brief=1; done
  for target in "${fuzz[@]}"; do run "$target" "$build/bin/$target" "tests/fuzz/corpus/${target#fuzz_}"; done
  [ -z "$sim" ] || run ndsim "$build/bin/ndsim" --seeds 1..50
else
  ninja -C "$build" -j "$jobs" > "$build/build.log" 2>&1 || { tail -30 "$build/build.log"; exit 1; }
  # Tests that use up every descriptor are left out, because UBSan needs a pipe. The simulator's
  # thousand seeds would take half an hour; some of them run below.
  left_out='^(teeth\.|vm$|model\.|metrics\.|e2e.run_demo|client_install_test|Descriptors\.|Half/Worlds)|RecoversFromDescriptorExhaustion'
  # In a forked child LeakSanitizer reports memory that only threads of the parent referenced.
  forks='AForkedChildDisturbsNeither'
  run ctest ctest --test-dir "$build" -j "$jobs" --output-on-failure -E "$left_out|$forks"
  run ndsim "$build/bin/ndsim" --seeds 1..200
  ASAN_OPTIONS+=:detect_leaks=0
  run ctest-forks ctest --test-dir "$build" --output-on-failure -R "$forks"
fi
[ "$failed" -eq 0 ]
