#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# deploy/windows/libraries.sh with programs that only pretend to build: a run that fails leaves no folder of libraries, and
# the next one goes on with the step that failed, also when it belongs to another tree and the first one is gone.
# usage: tests/windows/libraries.sh
set -euo pipefail
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../.."
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
export PLACE=$place PATH=$place/bin:$PATH
mkdir "$place/bin"
pretend() {
  { echo '#!/bin/bash' && cat; } > "$place/bin/$1"
  chmod +x "$place/bin/$1"
}
# The sources, of which a run that was interrupted had unpacked a part.
pretend apt-get << 'END'
case $* in
  *indextargets*) echo Debian an-archive bookworm main ;;
  *' source '*)
    ! ls -d abseil-*/ 2> /dev/null || { echo "a part of a source is left" >&2 && exit 1; }
    echo fetch >> "$PLACE/steps"
    mkdir -p abseil-1 re2-1 prometheus-cpp-1 sqlite3-1 protobuf-1/src/google/protobuf grpc-1/include/{grpc,grpcpp} \
      grpc-1/src/{core,cpp} grpc-1/third_party/upb/upb
    touch protobuf-1/src/google/protobuf/a.h grpc-1/src/core/a.h grpc-1/third_party/upb/upb/a.h sqlite3-1/sqlite3.{h,c}
    printf '#!/bin/sh\n' > sqlite3-1/configure && chmod +x sqlite3-1/configure ;;
esac
END
# CMake reads the toolchain that a folder was made with, whatever a later call names.
pretend cmake << 'END'
for argument in "$@"; do
  case $argument in -DCMAKE_TOOLCHAIN_FILE=*) toolchain=${argument#*=} ;; esac
done
while [ "$1" != -B ]; do shift; done
mkdir -p "$2" && (cd "${2%/*}" && mkdir -p root/lib root/include)
[ -e "$2/toolchain" ] || echo "$toolchain" > "$2/toolchain"
cat "$(cat "$2/toolchain")"
END
pretend ninja << 'END'
name=$(basename "$2")
echo "$name" >> "$PLACE/steps"
[ "$name" != "${FAILING-}" ] || exit 1
[ "$name" != protobuf ] || touch "$2/libprotobuf.a"
[ "$name" != grpc ] || touch "$2"/lib{grpc++_unsecure,grpc_unsecure,gpr,upb,address_sorting}.a
END
for name in make x86_64-w64-mingw32-ar; do pretend "$name" < /dev/null; done
pretend x86_64-w64-mingw32-gcc-posix <<< 'touch "${@: -1}"'

# build FAILING: with the recipe of a tree of its own. Sets steps to those of this run.
build() {
  local status=0 tree
  tree=$(mktemp -d "$place/tree-XXX")
  rm -f "$place/steps"
  cp deploy/windows/{libraries.sh,mingw.cmake} "$tree"
  FAILING=$1 "$tree/libraries.sh" "$place/libraries" 2 > "$place/log" 2>&1 || status=$?
  rm -r "$tree"
  steps=$(tr '\n' ' ' < "$place/steps")
  return "$status"
}
expect() {
  [ "$2" = "$3" ] || {
    cat "$place/log" >&2
    echo "$1: expected \"$2\", got \"$3\"" >&2
    exit 1
  }
}
mkdir -p "$place/libraries.work/abseil-0"
! build abseil || expect "a step that fails ends the run" failed succeeded
expect "the steps up to the one that failed" "fetch googletest abseil " "$steps"
[ ! -e "$place/libraries" ] || expect "a run that failed" "no libraries" libraries
build '' || expect "the second run" succeeded failed
expect "the steps from the one that failed on" "abseil protobuf re2 prometheus grpc " "$steps"
[ -e "$place/libraries/lib/libgpr.a" ] || expect "libraries of the second run" libgpr.a nothing
[ ! -e "$place/libraries.work" ] || expect "the work of a run that came to its end" gone there
echo "2 runs, as expected"
