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
sources=(abseil grpc prometheus-cpp protobuf re2 sqlite3)
# The mingw-w64 of Debian 12 assumes an older Windows unless a source says otherwise.
system="-D_WIN32_WINNT=0x0A00 -DWINVER=0x0A00 -DNTDDI_VERSION=0x0A000000 -D_UNICODE -DUNICODE -DGRPC_ARES=0 -DNOMINMAX -DWIN32_LEAN_AND_MEAN"
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

# library NAME SOURCE TARGETS OPTION...: builds these targets of one library in the cache; "install" puts it in its place.
library() {
  local name=$1 source=$2 targets
  read -ra targets <<< "$3"
  shift 3
  say "building $name for Windows"
  cmake -S "$source" -B "$work/$name" -G Ninja -DCMAKE_TOOLCHAIN_FILE="$toolchain" -DCMAKE_BUILD_TYPE=Release \
    -DCMAKE_CXX_FLAGS="-w $system" -DCMAKE_C_FLAGS="-w $system" -DCMAKE_CXX_STANDARD=20 \
    -DCMAKE_INSTALL_PREFIX="$work/root" -DCMAKE_PREFIX_PATH="$work/root" -DCMAKE_POLICY_DEFAULT_CMP0074=NEW \
    "${launcher[@]}" "$@"
  ninja -C "$work/$name" -j "$jobs" "${targets[@]}"
}

# SQLite is compiled from the one file that its own build makes of its sources.
build_sqlite() {
  (cd "$work"/sqlite3-*/ && ./configure --disable-tcl --disable-readline --disable-shared && make sqlite3.c)
  x86_64-w64-mingw32-gcc-posix -O2 -w -DSQLITE_THREADSAFE=1 -c "$(echo "$work"/sqlite3-*/sqlite3.c)" -o "$work/sqlite3.o"
  x86_64-w64-mingw32-ar rcs "$work/root/lib/libsqlite3.a" "$work/sqlite3.o"
  cp "$work"/sqlite3-*/sqlite3.h "$work/root/include"
}

# gRPC without TLS and without c-ares, of which Debian has none for Windows. Its inner headers, for
# daemon/server/grpc_connection_win.cc, are kept apart from the public ones. Nothing is optimized: it serves administrators.
build_grpc() {
  library grpc "$(echo "$work"/grpc-*/)" "grpc++_unsecure" -DCMAKE_CXX_FLAGS_RELEASE="-O0 -DNDEBUG" -DgRPC_INSTALL=OFF \
    -DgRPC_BUILD_TESTS=OFF -DgRPC_BUILD_CODEGEN=OFF -DgRPC_ABSL_PROVIDER=package -DgRPC_RE2_PROVIDER=package \
    -DgRPC_ZLIB_PROVIDER=package -DgRPC_PROTOBUF_PROVIDER=none -DgRPC_CARES_PROVIDER=none -DgRPC_SSL_PROVIDER=none
  cp "$work"/grpc/lib{grpc++_unsecure,grpc_unsecure,gpr,upb,address_sorting}.a "$work/root/lib"
  mkdir -p "$work/root/include/grpc-inner"
  cp -r "$work"/grpc-*/include/{grpc,grpcpp} "$work/root/include"
  (cd "$work"/grpc-*/ && find src/core src/cpp -name '*.h' -exec cp --parents -t "$work/root/include/grpc-inner" {} +)
  (cd "$work"/grpc-*/third_party/upb && find upb \( -name '*.h' -o -name '*.inc' \) -exec cp --parents -t "$work/root/include/grpc-inner" {} +)
}

build_libraries() {
  fetch "$work"
  library googletest /usr/src/googletest install -DBUILD_GMOCK=OFF
  library abseil "$(echo "$work"/abseil-*/)" install -DABSL_PROPAGATE_CXX_STD=ON
  # The library alone: the compiler of protobuf is a program of this host.
  library protobuf "$(echo "$work"/protobuf-*/)" libprotobuf -Dprotobuf_BUILD_TESTS=OFF -Dprotobuf_BUILD_PROTOC_BINARIES=OFF \
    -Dprotobuf_BUILD_LIBPROTOC=OFF -Dprotobuf_WITH_ZLIB=OFF
  cp "$work/protobuf/libprotobuf.a" "$work/root/lib"
  (cd "$work"/protobuf-*/src && find google/protobuf \( -name '*.h' -o -name '*.inc' \) -exec cp --parents -t "$work/root/include" {} +)
  # Debian's source has no tables of Unicode.
  make -C "$work"/re2-*/ REBUILD_TABLES=1 re2/perl_groups.cc re2/unicode_casefold.cc re2/unicode_groups.cc
  library re2 "$(echo "$work"/re2-*/)" install -DRE2_BUILD_TESTING=OFF
  library prometheus "$(echo "$work"/prometheus-cpp-*/)" install -DENABLE_PULL=OFF -DENABLE_PUSH=OFF -DENABLE_COMPRESSION=OFF \
    -DENABLE_TESTING=OFF -DGENERATE_PKGCONFIG=OFF
  build_sqlite
  build_grpc
  # Libraries of headers alone are the same for every system.
  cp -r /usr/include/{spdlog,fmt,toml++,CLI} "$work/root/include"
}

# The libraries depend on the compiler, on the versions of their sources and on this recipe.
key=$({
  cat deploy/windows/build.sh "$toolchain"
  x86_64-w64-mingw32-g++-posix -dumpfullversion
  dpkg-query -W -f '${Version}\n' googletest libabsl-dev libcli11-dev libfmt-dev libspdlog-dev libtomlplusplus-dev \
    libgrpc++-dev libprotobuf-dev libre2-dev libsqlite3-dev prometheus-cpp-dev libz-mingw-w64-dev
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
  # Afresh: paths of the former libraries are in the cache of CMake.
  cmake --fresh -S . -B "$build" -G Ninja -DCMAKE_TOOLCHAIN_FILE="$toolchain" -DCMAKE_BUILD_TYPE=RelWithDebInfo \
    -DCMAKE_CXX_FLAGS_RELWITHDEBINFO="-O2 -g1" -DNDBROKER_UNITY=24 -DCMAKE_PREFIX_PATH="$libraries" > "$build/configure.log" 2>&1 || {
    cat "$build/configure.log" >&2
    die "cmake failed"
  }
fi
say "building in $build"
ninja -C "$build" -j "$jobs" "$@"
give_back
