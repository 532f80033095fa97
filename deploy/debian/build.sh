#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the Debian packages of this tree, checks them and lists their contents; ./run.sh --deb calls it.
#
# usage: build.sh [--no-checks] [BUILD]    BUILD: the build directory, by default build/deb
#        build.sh --built BUILD            packages what BUILD, a build with tests, has already compiled
# The same commit gives the same bytes, wherever it is built (tests/system/reproducible.sh proves it). With --built the
# contents and the scripts of the packages are the same, but programs lack the compiler's options for hardening, which
# would be a second build of everything; such packages are for tests only.
set -euo pipefail
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../.."

checks=1 built=
case ${1:-} in
  --no-checks) checks= && shift ;;
  --built) checks= built=1 && shift ;;
esac
build=$(realpath -m "${1:-build/deb}")
mkdir -p "${build%/*}"
# The time in the packages is that of the commit, or of the changelog where there is no repository.
if [ -z "${SOURCE_DATE_EPOCH:-}" ]; then
  SOURCE_DATE_EPOCH=$(git log -1 --format=%ct 2> /dev/null || date -d "$(sed -n 's/^ -- .*>  //p' deploy/debian/changelog | head -1)" +%s)
fi
export SOURCE_DATE_EPOCH TZ=UTC LC_ALL=C.UTF-8
umask 022

[ -n "$built" ] || [ -e "$build/build.ninja" ] || cmake --preset deb -B "$build" > "$build.log" 2>&1 || {
  cat "$build.log" >&2
  exit 1
}
targets=all
[ -z "$built" ] || targets=
# shellcheck disable=SC2086
ninja -C "$build" ${NDBROKER_JOBS:+-j "$NDBROKER_JOBS"} $targets debian_files
rm -rf "$build/packages"
(cd "$build" && cpack -G DEB > cpack.log) || {
  cat "$build/cpack.log" >&2
  exit 1
}
rm -rf "$build/packages/_CPack_Packages"
deploy/debian/sbom.py "$build/packages"/*.deb > "$build/packages/ndbroker.spdx.json"
[ -z "$checks" ] || deploy/debian/check.sh "$build/packages"
(cd "$build/packages" && sha256sum -- *)
