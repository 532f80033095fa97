#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# previous.sh [COMMIT]: builds ndbrokerd, ndctl, nd-traffic and the library of an earlier commit of this repository, once,
# and prints the folder that holds them (bin, lib).
#
# They are kept as a tarball in $NDBROKER_VERSIONS (default: ~/.cache/ndbroker/versions), not in the repository. With
# --cached nothing is built: without the tarball the exit code is 77.
set -euo pipefail
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../.."
cached=
[ "${1:-}" != --cached ] || { cached=1 && shift; }
wanted=${1:-$(cat tests/versions/previous)}
commit=$(git rev-parse --verify --quiet "$wanted^{commit}") || {
  echo "previous.sh: this repository has no commit $wanted" >&2
  [ "$(git rev-parse --is-shallow-repository)" = true ] || exit 1
  echo "previous.sh: a shallow clone has no history; 'git fetch --unshallow' brings it" >&2
  exit 77
}
cache=${NDBROKER_VERSIONS:-${XDG_CACHE_HOME:-$HOME/.cache}/ndbroker/versions}
tarball=$cache/$commit.tar.gz
folder=$cache/$commit
if [ ! -e "$tarball" ]; then
  [ -z "$cached" ] || exit 77
  mkdir -p "$cache"
  work=$(mktemp -d "${TMPDIR:-/tmp}/ndbroker-previous-XXXXXX")
  trap 'rm -rf "$work"' EXIT
  mkdir "$work/source"
  git archive "$commit" | tar -x -C "$work/source"
  (cd "$work/source" && cmake --preset release -DNDBROKER_TESTS=OFF -DNDBROKER_WERROR=OFF &&
    ninja -C build/release ${NDBROKER_JOBS:+-j "$NDBROKER_JOBS"} ndbrokerd ndctl nd-traffic) > "$cache/$commit.log" 2>&1 || {
    tail -5 "$cache/$commit.log" >&2
    exit 1
  }
  tar -czf "$tarball.new" -C "$work/source/build/release" bin/ndbrokerd bin/ndctl bin/nd-traffic $(cd "$work/source/build/release" && echo lib/libndbroker.so* && ls lib/ndbroker/ndbrokerd-services.so 2> /dev/null)
  mv "$tarball.new" "$tarball"
fi
if [ ! -e "$folder/complete" ]; then
  mkdir -p "$folder"
  tar -xzf "$tarball" -C "$folder"
  touch "$folder/complete"
fi
echo "$folder"
