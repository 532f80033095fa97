#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Puts each historical bug back into a copy of the tree and demands that a test notices.
# usage: tests/teeth/run.sh [--some N] [--dir DIR] [NAME...]
#   --some N   N of them, others every day
#   --dir DIR  where the copy is built (default: build/teeth)
# A patch says by which test programs its bug is caught; they must pass without it. Exit 0: all were caught.
set -euo pipefail
here=$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")
top=$(cd "$here/../.." && pwd)
work=$top/build/teeth
some=
names=()
while [ $# -gt 0 ]; do
  case $1 in
    --some) some=$2 && shift 2 ;;
    --dir) work=$(readlink -m "$2") && shift 2 ;;
    -h | --help) sed -n '3,7s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" && exit 0 ;;
    *) names+=("$1") && shift ;;
  esac
done
if [ ${#names[@]} -eq 0 ]; then
  mapfile -t names < <(cd "$here" && ls -- *.patch | sed 's/\.patch$//')
fi
if [ -n "$some" ] && [ "$some" -lt ${#names[@]} ]; then
  first=$((10#$(date -u +%j) * some % ${#names[@]}))
  names=("${names[@]:first}" "${names[@]:0:first}")
  names=("${names[@]:0:some}")
fi
for name in "${names[@]}"; do
  [ -f "$here/$name.patch" ] || { echo "no such patch: $name" >&2; exit 2; }
done

# The copy: what git would take; a file that did not change keeps its time, so that only the rest is built.
src=$work/src build=$work/build
mkdir -p "$src" "$build"
(cd "$top" && git ls-files -co --exclude-standard) | while IFS= read -r file; do
  [ ! -f "$top/$file" ] || cmp -s "$top/$file" "$src/$file" || { mkdir -p "$(dirname "$src/$file")" && cp "$top/$file" "$src/$file"; }
done
if [ ! -e "$build/build.ninja" ]; then
  cmake -S "$src" -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Debug -DCMAKE_CXX_FLAGS='-O1 -g0' -DNDBROKER_WERROR=OFF > "$work/configure.log" 2>&1 ||
    { cat "$work/configure.log" >&2; exit 1; }
fi
make() { ninja -C "$build" -j "${NDBROKER_JOBS:-$(nproc)}" "$@" > "$work/build.log" 2>&1; }
# A program that crashes or hangs has noticed, too.
passes() {
  local arguments=(--gtest_brief=1)
  [[ $1 != fuzz_* ]] || arguments=("$src/tests/fuzz/corpus/${1#fuzz_}")
  (cd "$build" && timeout 180 "bin/$1" "${arguments[@]}" > "$work/test.log" 2>&1 < /dev/null)
}
catchers() { sed -n 's/^Caught-by: //p' "$here/$1.patch"; }

mapfile -t programs < <(for name in "${names[@]}"; do catchers "$name" | tr ' ' '\n'; done | sort -u)
make "${programs[@]}" || { tail -30 "$work/build.log" >&2; echo "the tree does not build" >&2; exit 1; }
for program in "${programs[@]}"; do
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
    for program in "${own[@]}"; do
      if ! make "$program"; then
        by="(does not build: renew it)" && break
      fi
      passes "$program" || { by="$program: $(grep -m1 -oE '^\[  FAILED  \] [^ ,]*' "$work/test.log" | cut -c14- || true)" && break; }
    done
  fi
  restore
  case $by in
    '' | '('*) missed+=("$name") && printf 'MISSED  %-42s %s\n' "$name" "$by" ;;
    *) caught=$((caught + 1)) && printf 'caught  %-42s %s\n' "$name" "$by" ;;
  esac
done
echo "$caught of ${#names[@]} historical bugs caught"
[ ${#missed[@]} -eq 0 ]
