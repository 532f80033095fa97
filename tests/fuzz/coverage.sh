#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Line coverage of the parsers by the corpora alone; fails below 98 %.
# usage: tests/fuzz/coverage.sh [BUILD-DIRECTORY]   (default build/fuzz-coverage)
set -euo pipefail
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../.."
source deploy/setup.sh

build=${1:-build/fuzz-coverage}
least=98
# The files that parse untrusted bytes. Not among them: check.cc, whose only function ends the process, and
# crc32c*.cc, whose tables are made by the compiler (fz_fpdu compares every variant with another CRC).
files=(
  provider/soft/wire/{ddp,fault,mpa,ndb_header,rdmap,terminate}.cc
  provider/soft/cm/{active_handshake,passive_handshake,handshake_frames}.cc
  provider/soft/qp/{iwarp/receiver,iwarp/receive_segment,shm/receiver,shm/shared_memory}.cc
  daemon/state/journal_image.cc
  daemon/metrics/http_request.cc
)
targets=(mpa_request mpa_reply fpdu terminate rdmap ring journal http)

install_packages deploy/packages.txt deploy/packages-test.txt
install_packages tests/fuzz/packages.txt
cmake -G Ninja -S . -B "$build" -DCMAKE_BUILD_TYPE=Debug -DCMAKE_CXX_COMPILER=clang++-14 \
  -DCMAKE_CXX_FLAGS="-O0 -g1 -fprofile-instr-generate -fcoverage-mapping" > "${TMPDIR:-/tmp}/coverage-configure.log" 2>&1 || {
  cat "${TMPDIR:-/tmp}/coverage-configure.log" >&2
  die "cmake failed"
}
say "building in $build"
ninja -C "$build" "${targets[@]/#/fuzz_}" > "$build/build.log" || {
  grep -v '^\[' "$build/build.log" >&2
  die "the build failed"
}
rm -f "$build"/fuzz-*.profraw
objects=()
for name in "${targets[@]}"; do
  LLVM_PROFILE_FILE="$build/fuzz-$name.profraw" "$build/bin/fuzz_$name" "tests/fuzz/corpus/$name" > /dev/null
  objects+=(-object "$build/bin/fuzz_$name")
done
llvm-profdata-14 merge -o "$build/fuzz.profdata" "$build"/fuzz-*.profraw
llvm-cov-14 export -summary-only -instr-profile "$build/fuzz.profdata" "${objects[@]:1}" "${files[@]/#/$PWD/}" 2> /dev/null |
  jq -r --arg root "$PWD/" '.data[0].files[] | .summary.lines as $l |
    [(.filename | ltrimstr($root)), $l.covered, $l.count] | @tsv' | sort |
  awk -v least=$least '
    { printf "%-48s %5d of %5d lines %6.2f %%\n", $1, $2, $3, 100 * $2 / $3; covered += $2; count += $3 }
    END {
      if (count == 0) { print "nothing was measured"; exit 1 }
      printf "%-48s %5d of %5d lines %6.2f %%\n", "all", covered, count, 100 * covered / count
      exit 100 * covered / count < least
    }' || die "the corpora must cover at least $least % of the lines"
