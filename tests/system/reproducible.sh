#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Proves that the packages of a commit are the same bytes wherever and whenever they are built: two clones of
# HEAD in folders of different names, built without a compiler cache, must have equal checksums.
# usage: reproducible.sh [FOLDER]    FOLDER: for the two builds, several gigabytes; default: one below $TMPDIR
set -euo pipefail
top=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
work=$(realpath -m "${1:-$(mktemp -d "${TMPDIR:-/tmp}/ndbroker-reproducible-XXXXXX")}")
export CCACHE_DISABLE=1
commit=$(git -C "$top" rev-parse HEAD)  # Others may follow meanwhile.
for folder in one a-longer/name-for-the-second; do
  rm -rf "${work:?}/$folder"
  mkdir -p "$work/$folder"
  git clone -q --no-hardlinks "$top" "$work/$folder/source"
  git -C "$work/$folder/source" checkout -q "$commit"
  (cd "$work/$folder/source" && umask "$([ $folder = one ] && echo 022 || echo 077)" &&
    deploy/debian/build.sh --no-checks > "$work/${folder##*/}.log" 2>&1) || { tail "$work/${folder##*/}.log" && exit 1; }
  (cd "$work/$folder/source/build/deb/packages" && sha256sum -- *) > "$work/${folder##*/}.sums"
done
cat "$work/one.sums"
if diff "$work/one.sums" "$work/name-for-the-second.sums"; then
  echo "equal: $(wc -l < "$work/one.sums") files"
  [ -n "${1:-}" ] || rm -rf "$work"
else
  echo "DIFFERENT; both are kept in $work" >&2
  exit 1
fi
