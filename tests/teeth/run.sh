#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Puts each bug into a copy of the tree and requires that a test fails.
# usage: tests/teeth/run.sh [--apply] [--some N] [--dir DIR] [NAME...]
#   --apply    builds nothing: each patch has to apply exactly, and to name tests
#   --some N   N of them; those that run within one day are all of them
#   --dir DIR  where the copy is built (default: build/teeth)
# A patch begins with the bug, its origin (History: a bug of a real program, Mutant: one decision of ours that was
# changed), and the tests that catch it, each a program or PROGRAM=GTEST-FILTER; all pass without the patch:
#   Caught-by:        one of these must fail, mostly unit tests
#   Caught-by-suite:  each of these must fail: conformance, simulator, integrity, crash, tests of real processes,
#                     corpora of the fuzz targets, attackers (hostile_client=ATTACK)
# A time-out is not a catch. Exit 0: every bug was caught.
set -euo pipefail
here=$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")
top=$(cd "$here/../.." && pwd)
work=$top/build/teeth
some= apply=
names=()
while [ $# -gt 0 ]; do
  case $1 in
    --apply) apply=1 && shift ;;
    --some) some=$2 && shift 2 ;;
    --dir) work=$(readlink -m "$2") && shift 2 ;;
    -h | --help) sed -n '3,13s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" && exit 0 ;;
    *) names+=("$1") && shift ;;
  esac
done
if [ ${#names[@]} -eq 0 ]; then
  mapfile -t names < <(cd "$here" && ls -- *.patch | sed 's/\.patch$//')
fi
if [ -n "$some" ] && [ "$some" -lt ${#names[@]} ]; then
  # A day has as many slots as a full run needs, so that one run in each slot of a day covers all patches.
  slots=$(((${#names[@]} + some - 1) / some))
  first=$(($(date +%s) * slots / 86400 * some % ${#names[@]}))
  names=("${names[@]:first}" "${names[@]:0:first}")
  names=("${names[@]:0:some}")
fi
for name in "${names[@]}"; do
  [ -f "$here/$name.patch" ] || { echo "no such patch: $name" >&2; exit 2; }
done

if [ -n "$apply" ]; then
  bad=0
  for name in "${names[@]}"; do
    # Without a repository, which may belong to another user.
    (cd "$top" && GIT_DIR=/nonexistent git apply --check "$here/$name.patch") || { echo "$name: does not apply: renew it" && bad=1; }
    for line in Caught-by Caught-by-suite; do
      grep -qE "^$line: [a-z]" "$here/$name.patch" || { echo "$name: has no line '$line:' with a test" && bad=1; }
    done
  done
  echo "${#names[@]} patches"
  exit "$bad"
fi

# Copies the files that git would commit. An unchanged file keeps its time, so that it is not built again.
# Compiled like the tree itself, from a folder at the same depth, so that ccache knows the objects.
src=$work/src build=$work/src/build/release
mkdir -p "$build"
(cd "$top" && git ls-files -co --exclude-standard) | while IFS= read -r file; do
  [ ! -f "$top/$file" ] || cmp -s "$top/$file" "$src/$file" || { mkdir -p "$(dirname "$src/$file")" && cp "$top/$file" "$src/$file"; }
done
if [ ! -e "$build/build.ninja" ]; then
  (cd "$src" && cmake --preset release -B "$build" -DNDBROKER_TESTS=ON) > "$work/configure.log" 2>&1 ||
    { cat "$work/configure.log" >&2; exit 1; }
fi
export CCACHE_PREFIX=$here/compile.sh
make() { ninja -C "$build" -j "${NDBROKER_JOBS:-$(nproc)}" "$@" > "$work/build.log" 2>&1; }
# Exit 0: it passed; 2: it took too long; 1: a test failed, or the program ended by a signal.
passes() {
  local program=${1%%=*} arguments=(--gtest_brief=1 --gtest_fail_fast) status=0
  [[ $program != fuzz_* ]] || arguments=("$src/tests/fuzz/corpus/${program#fuzz_}")
  case $1 in
    hostile_*) arguments=(--short --only "${1#*=}") ;;
    *=*) arguments+=("--gtest_filter=${1#*=}") ;;
  esac
  (cd "$build" && timeout 300 "bin/$program" "${arguments[@]}" > "$work/test.log" 2>&1 < /dev/null) || status=$?
  case $status in 0) return 0 ;; 124) return 2 ;; *) return 1 ;; esac
}
catchers() { sed -n 's/^Caught-by: //p' "$here/$1.patch"; }
suites() { sed -n 's/^Caught-by-suite: //p' "$here/$1.patch"; }
failed_test() { grep -m1 -oE '^(\[  FAILED  \]|FAULT) [^ ,]*' "$work/test.log" | sed 's/.* //' || true; }

mapfile -t programs < <(for name in "${names[@]}"; do { catchers "$name"; suites "$name"; } | tr ' ' '\n'; done | sort -u)
make $(printf '%s\n' "${programs[@]%%=*}" | sort -u) || { tail -30 "$work/build.log" >&2; echo "the tree does not build" >&2; exit 1; }
for program in "${programs[@]}"; do
  [[ $program != sim_test* ]] || continue  # A minute or more; ctest runs it for this tree anyway.
  passes "$program" || { tail -30 "$work/test.log" >&2; echo "$program fails without any bug" >&2; exit 1; }
done

caught=0 missed=()
for name in "${names[@]}"; do
  mapfile -t files < <(sed -n 's|^+++ b/||p' "$here/$name.patch")
  restore() { for file in "${files[@]}"; do cp "$top/$file" "$src/$file"; done; }
  by=
  if ! (cd "$src" && patch -p1 --forward --silent --no-backup-if-mismatch -r - < "$here/$name.patch" > "$work/patch.log" 2>&1); then
    by="(does not apply: renew it)"
  else
    read -ra own < <(catchers "$name")
    read -ra levels < <(suites "$name") || true
    slow=
    for program in "${own[@]}"; do
      make "${program%%=*}" || { by="(does not build: renew it)" && break; }
      status=0
      passes "$program" || status=$?
      [ "$status" -ne 2 ] || slow="(only a time-out of $program)"
      [ "$status" -ne 1 ] || { by="$program: $(failed_test)" && break; }
    done
    by=${by:-$slow}
    for program in "${levels[@]}"; do
      case $by in '' | '('*) break ;; esac
      make "${program%%=*}" || { by="(does not build: renew it)" && break; }
      status=0
      passes "$program" || status=$?
      [ "$status" -eq 1 ] && by+=", ${program%%=*}: $(failed_test)" || by="(not by $program)"
    done
  fi
  restore
  case $by in
    '' | '('*) missed+=("$name") && printf 'MISSED  %-42s %s\n' "$name" "$by" ;;
    *) caught=$((caught + 1)) && printf 'caught  %-42s %s\n' "$name" "$by" ;;
  esac
done
echo "$caught of ${#names[@]} bugs caught"
[ ${#missed[@]} -eq 0 ]
