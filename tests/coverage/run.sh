#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Lines and branches of the core and of the codecs that their own tests run.
# usage: tests/coverage/run.sh [--record] [BUILD]   (default build/coverage)
#   --record  writes the result into docs/proof.md
# Exit 0: 100 % of the lines and at least 98 % of the branches. tests/coverage/table.py says which files and branches
# count, and names each line that was not run and each branch that was not taken.
#
# The programs below are the unit tests of the measured files. The random test of the core and the simulator are not
# among them: a line that only chance runs has no test that says what it must do. Without exceptions
# (-fno-exceptions; none of the measured files throws or catches) GCC makes no branches that only an exception takes.
set -euo pipefail
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../.."
source deploy/setup.sh

tests=(core_{admin,attempts,connect,endings,guards,host_port,lease,lifetime,listen,objects,permission,ports,prepare,reclaim}_test
  core_{record,reserve,rules,table,tables,wire}_test
  session_codec_test soft_wire_test state_journal_test)
record=()
build=build/coverage
for argument in "$@"; do
  case $argument in
    --record) record=(--record) ;;
    -h | --help) sed -n '3,6s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" && exit 0 ;;
    -*) die "unknown option $argument; --help shows the usage" ;;
    *) build=$argument ;;
  esac
done

install_packages deploy/packages.txt deploy/packages-test.txt
mkdir -p "$build"
cmake -G Ninja -S . -B "$build" -DCMAKE_BUILD_TYPE=Debug -DCMAKE_CXX_FLAGS_DEBUG="-O0 -g1" \
  -DCMAKE_CXX_FLAGS="--coverage -fno-exceptions -DSPDLOG_NO_EXCEPTIONS" > "$build/configure.log" 2>&1 || {
  cat "$build/configure.log" >&2
  die "cmake failed"
}
say "building in $build"
ninja -C "$build" -j "$(nproc)" "${tests[@]}" > "$build/build.log" 2>&1 < /dev/null || {
  grep -v '^\[' "$build/build.log" >&2
  die "the build failed"
}
# Counters of earlier runs, and of the runs that listed the tests for ctest.
find "$build" -name '*.gcda' -delete
for test in "${tests[@]}"; do
  "$build/bin/$test" --gtest_brief=1 > "$build/$test.log" 2>&1 < /dev/null || {
    cat "$build/$test.log" >&2
    die "$test failed"
  }
done
exec python3 tests/coverage/table.py "${record[@]}" "$build"
