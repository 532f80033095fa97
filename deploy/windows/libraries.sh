#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the third-party libraries of the Windows programs from Debian's sources and puts them into FOLDER. A run that is
# interrupted or fails leaves its work in FOLDER.work, and the next run goes on there. A program of its own, so that the
# first command that fails ends it: within a condition, bash would go on.
#
# usage: deploy/windows/libraries.sh FOLDER JOBS
set -euo pipefail
libraries=$(readlink -m "$1") jobs=$2
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")"
work=$libraries.work
root=$work/root
# A copy: the folders of CMake name this file, and the next run may belong to another tree.
toolchain=$work/mingw.cmake
# The mingw-w64 of Debian 12 assumes an older Windows unless a source says otherwise.
system="-D_WIN32_WINNT=0x0A00 -DWINVER=0x0A00 -DNTDDI_VERSION=0x0A000000 -D_UNICODE -DUNICODE -DGRPC_ARES=0 -DNOMINMAX -DWIN32_LEAN_AND_MEAN"
launcher=()
! command -v ccache > /dev/null || launcher=(-DCMAKE_C_COMPILER_LAUNCHER=ccache -DCMAKE_CXX_COMPILER_LAUNCHER=ccache)
# The objects in ccache serve another folder, too.
export CCACHE_BASEDIR=$work CCACHE_NOHASHDIR=1

# once STEP: a function of this file, unless an earlier run came to its end.
once() {
  if [ ! -e "$work/$1.done" ]; then
    "$1"
    touch "$work/$1.done"
  fi
}

# The source packages of Debian 12, by the signed lists of the archive that apt uses already. The system's own lists of
# packages stay as they are.
fetch() {
  local lists=$work/apt options
  rm -rf "$work"/*-*/  # apt skips a folder of which an interrupted run unpacked a part.
  mkdir -p "$lists/lists/partial" "$lists/none"
  apt-get indextargets --format '$(ORIGIN) $(REPO_URI) $(RELEASE) $(COMPONENT)' 'Created-By: Packages' |
    awk '$1 == "Debian" { printf "deb-src [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] %s %s %s\n", $2, $3, $4 }' |
    sort -u > "$lists/sources.list"
  [ -s "$lists/sources.list" ] || {
    echo "apt knows no Debian archive; expected Debian 12 with its archive in /etc/apt" >&2
    exit 1
  }
  options=(-q -o Dir::Etc::sourcelist="$lists/sources.list" -o Dir::Etc::sourceparts="$lists/none"
    -o Dir::State::lists="$lists/lists" -o Dir::Cache::srcpkgcache= -o Dir::Cache::pkgcache= -o APT::Sandbox::User=root)
  cd "$work"
  apt-get "${options[@]}" update
  apt-get "${options[@]}" source abseil grpc prometheus-cpp protobuf re2 sqlite3
  cd - > /dev/null
}

# library NAME SOURCE TARGETS OPTION...: builds these targets of one library; "install" puts it in its place.
library() {
  local name=$1 source=$2 targets
  read -ra targets <<< "$3"
  shift 3
  echo "== building $name for Windows"
  cmake -S "$source" -B "$work/$name" -G Ninja -DCMAKE_TOOLCHAIN_FILE="$toolchain" -DCMAKE_BUILD_TYPE=Release \
    -DCMAKE_CXX_FLAGS="-w $system" -DCMAKE_C_FLAGS="-w $system" -DCMAKE_CXX_STANDARD=20 \
    -DCMAKE_INSTALL_PREFIX="$root" -DCMAKE_PREFIX_PATH="$root" -DCMAKE_POLICY_DEFAULT_CMP0074=NEW \
    "${launcher[@]}" "$@"
  ninja -C "$work/$name" -j "$jobs" "${targets[@]}"
}

googletest() { library googletest /usr/src/googletest install -DBUILD_GMOCK=OFF; }
abseil() { library abseil "$(echo "$work"/abseil-*/)" install -DABSL_PROPAGATE_CXX_STD=ON; }

# The library alone: the compiler of protobuf is a program of this host.
protobuf() {
  library protobuf "$(echo "$work"/protobuf-*/)" libprotobuf -Dprotobuf_BUILD_TESTS=OFF -Dprotobuf_BUILD_PROTOC_BINARIES=OFF \
    -Dprotobuf_BUILD_LIBPROTOC=OFF -Dprotobuf_WITH_ZLIB=OFF
  cp "$work/protobuf/libprotobuf.a" "$root/lib"
  (cd "$work"/protobuf-*/src && find google/protobuf \( -name '*.h' -o -name '*.inc' \) -exec cp --parents -t "$root/include" {} +)
}

# Debian's source has no tables of Unicode.
re2() {
  make -C "$work"/re2-*/ REBUILD_TABLES=1 re2/perl_groups.cc re2/unicode_casefold.cc re2/unicode_groups.cc
  library re2 "$(echo "$work"/re2-*/)" install -DRE2_BUILD_TESTING=OFF
}

prometheus() {
  library prometheus "$(echo "$work"/prometheus-cpp-*/)" install -DENABLE_PULL=OFF -DENABLE_PUSH=OFF -DENABLE_COMPRESSION=OFF \
    -DENABLE_TESTING=OFF -DGENERATE_PKGCONFIG=OFF
}

# SQLite is compiled from the one file that its own build makes of its sources.
sqlite() {
  (cd "$work"/sqlite3-*/ && ./configure --disable-tcl --disable-readline --disable-shared && make sqlite3.c)
  x86_64-w64-mingw32-gcc-posix -O2 -w -DSQLITE_THREADSAFE=1 -c "$(echo "$work"/sqlite3-*/sqlite3.c)" -o "$work/sqlite3.o"
  x86_64-w64-mingw32-ar rcs "$root/lib/libsqlite3.a" "$work/sqlite3.o"
  cp "$work"/sqlite3-*/sqlite3.h "$root/include"
}

# Libraries of headers alone are the same for every system.
headers() { cp -r /usr/include/{spdlog,fmt,toml++,CLI} "$root/include"; }

# gRPC without TLS and without c-ares, of which Debian has none for Windows. Its inner headers, for
# daemon/server/grpc_connection_win.cc, are kept apart from the public ones. Nothing is optimized: it serves administrators.
grpc() {
  library grpc "$(echo "$work"/grpc-*/)" "grpc++_unsecure" -DCMAKE_CXX_FLAGS_RELEASE="-O0 -DNDEBUG" -DgRPC_INSTALL=OFF \
    -DgRPC_BUILD_TESTS=OFF -DgRPC_BUILD_CODEGEN=OFF -DgRPC_ABSL_PROVIDER=package -DgRPC_RE2_PROVIDER=package \
    -DgRPC_ZLIB_PROVIDER=package -DgRPC_PROTOBUF_PROVIDER=none -DgRPC_CARES_PROVIDER=none -DgRPC_SSL_PROVIDER=none
  cp "$work"/grpc/lib{grpc++_unsecure,grpc_unsecure,gpr,upb,address_sorting}.a "$root/lib"
  mkdir -p "$root/include/grpc-inner"
  cp -r "$work"/grpc-*/include/{grpc,grpcpp} "$root/include"
  (cd "$work"/grpc-*/ && find src/core src/cpp -name '*.h' -exec cp --parents -t "$root/include/grpc-inner" {} +)
  (cd "$work"/grpc-*/third_party/upb && find upb \( -name '*.h' -o -name '*.inc' \) -exec cp --parents -t "$root/include/grpc-inner" {} +)
}

# One run at a time; the second one finds the libraries, or goes on where the first one ended.
mkdir -p "$work"
exec 9> "$work/lock"
flock 9
cp mingw.cmake "$toolchain"
if [ ! -d "$libraries" ]; then
  for step in fetch googletest abseil protobuf re2 prometheus sqlite headers grpc; do
    once "$step"
  done
  mv "$root" "$libraries"
  rm -rf "$work"
fi
