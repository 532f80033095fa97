#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the Windows programs on Debian 12: installs the packages that are missing, builds third-party libraries from
# Debian's sources once, then the targets of this tree in build/windows. Nothing is committed or installed on the
# host except for packages.
#
# usage: deploy/windows/build.sh [TARGET...]      without targets: all that docs/windows.md lists
#   NDBROKER_JOBS    compilers at a time (default: one for each processor)
#   XDG_CACHE_HOME   libraries are kept in ndbroker-windows there (default: ~/.cache)
set -euo pipefail
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../.."
source deploy/setup.sh

case ${1-} in
  -h | --help) sed -n '3,10s/^# \{0,1\}//p' deploy/windows/build.sh && exit 0 ;;
esac

toolchain=$PWD/deploy/windows/mingw.cmake
jobs=${NDBROKER_JOBS:-$(nproc)}
sources=(abseil)
launcher=()
! command -v ccache > /dev/null || launcher=(-DCMAKE_C_COMPILER_LAUNCHER=ccache -DCMAKE_CXX_COMPILER_LAUNCHER=ccache)

install_packages deploy/packages.txt deploy/packages-windows.txt

# fetch FOLDER: the source packages of Debian 12, by the signed lists of the archive that apt uses already. The system's
# own lists of packages stay as they are.
fetch() {
  local lists=$1/apt options
  mkdir -p "$lists/lists/partial" "$lists/none"
  apt-get indextargets --format '$(ORIGIN) $(REPO_URI) $(RELEASE) $(COMPONENT)' 'Created-By: Packages' |
    awk '$1 == "Debian" { printf "deb-src [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] %s %s %s\n", $2, $3, $4 }' |
    sort -u > "$lists/sources.list"
  [ -s "$lists/sources.list" ] || die "apt knows no Debian archive; expected Debian 12 with its archive in /etc/apt"
  options=(-q -o Dir::Etc::sourcelist="$lists/sources.list" -o Dir::Etc::sourceparts="$lists/none"
    -o Dir::State::lists="$lists/lists" -o Dir::Cache::srcpkgcache= -o Dir::Cache::pkgcache= -o APT::Sandbox::User=root)
  (cd "$1" && apt-get "${options[@]}" update && apt-get "${options[@]}" source "${sources[@]}")
}

# library NAME SOURCE OPTION...: builds and installs one library into the cache.
library() {
  local name=$1 source=$2
  shift 2
  say "building $name for Windows"
  cmake -S "$source" -B "$work/$name" -G Ninja -DCMAKE_TOOLCHAIN_FILE="$toolchain" -DCMAKE_BUILD_TYPE=Release \
    -DCMAKE_CXX_FLAGS=-w -DCMAKE_CXX_STANDARD=20 -DCMAKE_INSTALL_PREFIX="$work/root" "${launcher[@]}" "$@"
  ninja -C "$work/$name" -j "$jobs" install
}

build_libraries() {
  fetch "$work"
  library googletest /usr/src/googletest -DBUILD_GMOCK=OFF
  library abseil "$(echo "$work"/abseil-*/)" -DABSL_PROPAGATE_CXX_STD=ON
  # Libraries of headers alone are the same for every system.
  cp -r /usr/include/{spdlog,fmt,toml++,CLI} "$work/root/include"
}

# The libraries depend on the compiler, on the versions of their sources and on this recipe.
key=$({
  cat deploy/windows/build.sh "$toolchain"
  x86_64-w64-mingw32-g++-posix -dumpfullversion
  dpkg-query -W -f '${Version}\n' googletest libabsl-dev libcli11-dev libfmt-dev libspdlog-dev libtomlplusplus-dev
} | sha256sum | cut -c1-16)
libraries=${XDG_CACHE_HOME:-$HOME/.cache}/ndbroker-windows/$key
if [ ! -d "$libraries" ]; then
  mkdir -p "${libraries%/*}"
  work=$(mktemp -d "${libraries%/*}/making-XXXXXX")
  trap 'rm -rf "$work"' EXIT
  run_logged "$work.log" '^\[[0-9]+/[0-9]+\]' build_libraries || {
    tail -40 "$work.log" >&2
    die "the libraries for Windows could not be built; the log is $work.log"
  }
  rm -f "$work.log"
  mv "$work/root" "$libraries"
fi

build=build/windows
if ! grep -qsx "CMAKE_PREFIX_PATH:[A-Z]*=$libraries" "$build/CMakeCache.txt"; then
  say "configuring $build"
  mkdir -p "$build"
  cmake -S . -B "$build" -G Ninja -DCMAKE_TOOLCHAIN_FILE="$toolchain" -DCMAKE_BUILD_TYPE=RelWithDebInfo \
    -DCMAKE_CXX_FLAGS_RELWITHDEBINFO="-O2 -g1" -DCMAKE_PREFIX_PATH="$libraries" > "$build/configure.log" 2>&1 || {
    cat "$build/configure.log" >&2
    die "cmake failed"
  }
fi
say "building in $build"
ninja -C "$build" -j "$jobs" "$@"
give_back
