#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the Windows programs on Debian 12: installs the packages that are missing, builds third-party libraries from
# Debian's sources once, then the targets of this tree in build/windows. Nothing is committed or installed on the
# host except for packages.
#
# usage: deploy/windows/build.sh [TARGET...]      without targets: all that docs/windows.md lists
#        deploy/windows/build.sh --warm           builds nothing; exit 0: the libraries are in the cache
#   NDBROKER_JOBS    compilers at a time (default: one for each processor)
#   XDG_CACHE_HOME   libraries are kept in ndbroker-windows there (default: ~/.cache)
set -euo pipefail
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../.."
source deploy/setup.sh

case ${1-} in
  -h | --help) sed -n '3,11s/^# \{0,1\}//p' deploy/windows/build.sh && exit 0 ;;
esac

jobs=${NDBROKER_JOBS:-$(nproc)}
# Clones of this tree share what ccache holds: no object has the path of its clone, also where a macro such as GoogleTest's takes the path of a
# file. gdb finds the sources when it is started in the root of the tree.
export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1
flags="-O2 -g1 -ffile-prefix-map=$PWD=."
toolchain=$PWD/deploy/windows/mingw.cmake
[ "${1-}" = --warm ] || install_packages deploy/packages.txt deploy/packages-windows.txt

# The libraries depend on the compiler, on the versions of their sources and on their recipe.
key=$({
  cat deploy/windows/libraries.sh "$toolchain"
  x86_64-w64-mingw32-g++-posix -dumpfullversion
  dpkg-query -W -f '${Version}\n' googletest libabsl-dev libcli11-dev libfmt-dev libspdlog-dev libtomlplusplus-dev \
    libgrpc++-dev libprotobuf-dev libre2-dev libsqlite3-dev prometheus-cpp-dev libz-mingw-w64-dev
} | sha256sum | cut -c1-16)
libraries=${XDG_CACHE_HOME:-$HOME/.cache}/ndbroker-windows/$key
[ "${1-}" != --warm ] || exec test -d "$libraries"
if [ ! -d "$libraries" ]; then
  mkdir -p "${libraries%/*}"
  log=$(mktemp "$libraries-XXXXXX.log")
  run_logged "$log" '^\[[0-9]+/[0-9]+\]' deploy/windows/libraries.sh "$libraries" "$jobs" || {
    tail -40 "$log" >&2
    die "the libraries for Windows could not be built; the log is $log. Another run goes on where this one ended"
  }
  rm -f "$libraries"-*.log
fi

build=build/windows
if ! grep -qsx "CMAKE_PREFIX_PATH:[A-Z]*=$libraries" "$build/CMakeCache.txt"; then
  say "configuring $build"
  mkdir -p "$build"
  # Afresh: paths of the former libraries are in the cache of CMake.
  cmake --fresh -S . -B "$build" -G Ninja -DCMAKE_TOOLCHAIN_FILE="$toolchain" -DCMAKE_BUILD_TYPE=RelWithDebInfo \
    -DCMAKE_CXX_FLAGS_RELWITHDEBINFO="$flags" -DNDBROKER_UNITY=24 -DCMAKE_PREFIX_PATH="$libraries" > "$build/configure.log" 2>&1 || {
    cat "$build/configure.log" >&2
    die "cmake failed"
  }
fi
say "building in $build"
ninja -C "$build" -j "$jobs" "$@"
give_back
