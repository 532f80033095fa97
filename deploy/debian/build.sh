#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the Debian packages of this tree, checks them and lists their contents; ./run.sh --deb calls it.
#
# usage: build.sh [--no-checks] [BUILD]    BUILD: the build directory, by default build/deb
# The same commit gives the same bytes, wherever it is built (tests/system/reproducible.sh proves it).
set -euo pipefail
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../.."

checks=1
if [ "${1:-}" = --no-checks ]; then
  checks=
  shift
fi
build=$(realpath -m "${1:-build/deb}")
# The time in the packages is that of the commit, or of the changelog where there is no repository.
if [ -z "${SOURCE_DATE_EPOCH:-}" ]; then
  SOURCE_DATE_EPOCH=$(git log -1 --format=%ct 2> /dev/null || date -d "$(sed -n 's/^ -- .*>  //p' deploy/debian/changelog | head -1)" +%s)
fi
export SOURCE_DATE_EPOCH TZ=UTC LC_ALL=C.UTF-8
umask 022

[ -e "$build/build.ninja" ] || cmake --preset deb -B "$build" > "$build.log" 2>&1 || {
  cat "$build.log" >&2
  exit 1
}
ninja -C "$build" ${NDBROKER_JOBS:+-j "$NDBROKER_JOBS"} all debian_files
rm -rf "$build/packages"
(cd "$build" && cpack -G DEB > cpack.log) || {
  cat "$build/cpack.log" >&2
  exit 1
}
rm -rf "$build/packages/_CPack_Packages"
deploy/debian/sbom.py "$build/packages"/*.deb > "$build/packages/ndbroker.spdx.json"
[ -z "$checks" ] || deploy/debian/check.sh "$build/packages"
(cd "$build/packages" && sha256sum -- *)
