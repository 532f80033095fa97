#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Fuzzes with libFuzzer, ASan and UBSan, or without the sanitizers and ten times as fast; merges new inputs into the
# corpus, minimised, and prints a table. tests/sanitize.sh replays the corpus under ASan and UBSan.
set -euo pipefail
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../.."
source deploy/setup.sh

usage() {
  cat << 'END'
usage: tests/fuzz/run.sh [--runs N | --seconds S] [--jobs J] [--build DIRECTORY] [TARGET...]
  --runs N      executions of each target (default 1000000)
  --seconds S   or that long
  --jobs J      targets at a time (default 2)
  --fast        without ASan and UBSan: what goes past a buffer meets its guard page, what is wrong its check
  --build D     build tree (default build/fuzz, or build/fuzz-fast)
  --keep        leave tests/fuzz/corpus as it is
TARGETs are the names of tests/fuzz/fz_*.cc without fz_; default: all.
END
}

limit=-runs=1000000
jobs=2
preset=fuzz
build=
keep=
targets=()
while [ $# -gt 0 ]; do
  case $1 in
    -h | --help) usage && exit 0 ;;
    --runs) limit=-runs=${2:?}; shift ;;
    --seconds) limit=-max_total_time=${2:?}; shift ;;
    --jobs) jobs=${2:?}; shift ;;
    --fast) preset=fuzz-fast ;;
    --build) build=${2:?}; shift ;;
    --keep) keep=1 ;;
    -*) die "unknown option '$1'; see --help" ;;
    *) [ -e "tests/fuzz/fz_$1.cc" ] || die "there is no target '$1'; see tests/fuzz/fz_*.cc"; targets+=("$1") ;;
  esac
  shift
done
if [ ${#targets[@]} -eq 0 ]; then
  for source in tests/fuzz/fz_*.cc; do
    name=${source#tests/fuzz/fz_}
    targets+=("${name%.cc}")
  done
fi

build=${build:-build/$preset}

# The maximum input length: longer inputs than the target can use only cost time.
max_len() {
  case $1 in
    mpa_request | mpa_reply) echo 1400 ;;
    fpdu) echo 2048 ;;
    terminate) echo 128 ;;
    session) echo 1024 ;;
    config) echo 512 ;;
    http) echo 4400 ;;
    journal) echo 1024 ;;
    *) echo 300 ;;
  esac
}

install_packages deploy/packages.txt deploy/packages-test.txt
install_packages tests/fuzz/packages.txt
say "building in $build"
cmake --preset "$preset" -B "$build" > "${TMPDIR:-/tmp}/fuzz-configure.log" 2>&1 || {
  cat "${TMPDIR:-/tmp}/fuzz-configure.log" >&2
  die "cmake failed"
}
ninja -C "$build" "${targets[@]/#/fuzz_}" > "$build/build.log" || {
  grep -v '^\[' "$build/build.log" >&2
  die "the build failed"
}

work=$build/work
fuzz_one() {
  local name=$1 dir=$work/$1
  mkdir -p "$dir/found" "$dir/failures"
  "$build/bin/fuzz_$name" "$limit" -max_len="$(max_len "$name")" -timeout=20 -rss_limit_mb=4096 -detect_leaks=0 \
    -entropic=0 -print_final_stats=1 -artifact_prefix="$dir/failures/" "$dir/found" "tests/fuzz/corpus/$name" \
    > "$dir/log" 2>&1 || true
}
say "fuzzing ${targets[*]} ($limit)"
for name in "${targets[@]}"; do
  while [ "$(jobs -rp | wc -l)" -ge "$jobs" ]; do wait -n || true; done
  fuzz_one "$name" &
done
wait

# New inputs are named by the hash of their content and selected anew; inputs with other names stay.
merge_one() {
  local name=$1 dir=$work/$1 corpus=tests/fuzz/corpus/$1
  rm -rf "$dir/merged"
  mkdir -p "$dir/merged"
  find "$corpus" -type f -regextype posix-extended ! -regex '.*/[0-9a-f]{40}' -exec cp -t "$dir/merged" {} +
  "$build/bin/fuzz_$name" -merge=1 -max_len=8192 -timeout=20 -rss_limit_mb=4096 "$dir/merged" "$corpus" "$dir/found" \
    > "$dir/merge.log" 2>&1 || return 1
  rm -rf "$corpus"
  cp -r "$dir/merged" "$corpus"
}

failures=0
printf '%-12s %12s %8s %8s %8s %8s\n' target executions exec/s edges files failures
for name in "${targets[@]}"; do
  dir=$work/$name
  found=$(find "$dir/failures" -type f | wc -l)
  failures=$((failures + found))
  if [ -z "$keep" ] && [ "$found" -eq 0 ]; then merge_one "$name" || say "$name: merging failed, see $dir/merge.log"; fi
  printf '%-12s %12s %8s %8s %8s %8s\n' "$name" \
    "$(sed -n 's/^stat::number_of_executed_units: *//p' "$dir/log")" \
    "$(sed -n 's/^stat::average_exec_per_sec: *//p' "$dir/log")" \
    "$(sed -n 's/.* cov: \([0-9]*\) .*/\1/p' "$dir/log" | tail -1)" \
    "$(find "tests/fuzz/corpus/$name" -type f | wc -l)" "$found"
done
size=$(find tests/fuzz/corpus -type f -printf '%s\n' | awk '{ n += $1 } END { print n + 0 }')
say "the corpora have $size bytes"
[ "$size" -le $((2 * 1024 * 1024)) ] || die "the corpora must not have more than 2 MiB"
[ "$failures" -eq 0 ] || die "$failures failures; inputs are in $work/TARGET/failures, the reason in $work/TARGET/log"
