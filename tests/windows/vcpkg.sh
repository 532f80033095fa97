#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The configuration for Visual Studio with vcpkg, on this host: clang-cl with packages that only pretend. It shows that CMake
# makes the build, and that no option of mingw-w64 is in it. Nothing is compiled. Exit 77: there is no clang-cl.
# usage: tests/windows/vcpkg.sh
set -euo pipefail
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../.."
clang_cl=$(command -v clang-cl-14 || command -v clang-cl) || { echo "skipped: there is no clang-cl" && exit 77; }
tools=$(dirname "$(readlink -f "$clang_cl")")
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
packages=$scratch/packages
grpc=$scratch/grpc

# package NAME TARGET...
package() {
  local name=$1 target
  shift
  mkdir -p "$packages/lib/cmake/$name"
  for target in "$@"; do
    case $target in
      *protoc | *_plugin) printf 'add_executable(%s IMPORTED)\nset_target_properties(%s PROPERTIES IMPORTED_LOCATION /bin/true)\n' "$target" "$target" ;;
      *) echo "add_library($target INTERFACE IMPORTED)" ;;
    esac
  done > "$packages/lib/cmake/$name/${name}Config.cmake"
}
package absl absl::btree absl::flat_hash_map
package spdlog spdlog::spdlog
package CLI11 CLI11::CLI11
package re2 re2::re2
package protobuf protobuf::libprotobuf protobuf::protoc
package gRPC gRPC::grpc++ gRPC::grpc_cpp_plugin
package prometheus-cpp prometheus-cpp::core
package GTest GTest::gtest GTest::gtest_main
mkdir -p "$packages/include/toml++" "$grpc/src/core/lib/iomgr"
touch "$packages"/include/{toml++/toml.h,sqlite3.h,zlib.h} "$packages"/lib/{sqlite3,zlib}.lib "$grpc/src/core/lib/iomgr/endpoint.h"

# configured OPTION...: with the output in $scratch/log.
configured() {
  rm -rf "$scratch/build"
  cmake -S . -B "$scratch/build" -G Ninja -DCMAKE_SYSTEM_NAME=Windows -DCMAKE_SYSTEM_PROCESSOR=AMD64 \
    -DCMAKE_CXX_COMPILER="$clang_cl" -DCMAKE_CXX_COMPILER_TARGET=x86_64-pc-windows-msvc -DCMAKE_TRY_COMPILE_TARGET_TYPE=STATIC_LIBRARY \
    -DCMAKE_AR="$tools/llvm-lib" -DCMAKE_LINKER="$tools/lld-link" -DCMAKE_MT="$tools/llvm-mt" -DCMAKE_RC_COMPILER=/bin/true \
    -DCMAKE_PREFIX_PATH="$packages" -DNDBROKER_MESSAGE_COMPILER=/bin/true "$@" > "$scratch/log" 2>&1
}
fail() { cat "$scratch/log" && echo "FAILED: $1" && exit 1; }

configured -DNDBROKER_GRPC_SOURCE="$grpc" || fail "CMake cannot configure"
foreign=$(sed -nE 's/^  (FLAGS|LINK_FLAGS) = //p' "$scratch/build/build.ninja" | tr ' ' '\n' |
  grep -xE -- '-(W[a-z].*|f[a-z].*|O0|static|municode|isystem.*|Wl,.*)' | sort -u || true)
[ -z "$foreign" ] || fail "options of another compiler: $foreign"
for program in ndbrokerd.exe ndctl.exe ndbrokernd.dll ndbroker-ndprobe.exe; do
  grep -q "^build bin/${program}[ :|]" "$scratch/build/build.ninja" || fail "$program is not built"
done
! configured || fail "it did not miss the source of gRPC"
tr '\n' ' ' < "$scratch/log" | grep -qE 'Give the +source of the +gRPC' || fail "it does not say how to give the source of gRPC"
python3 - << 'CHECK'
import json, re
manifest = json.load(open("vcpkg.json"))
version = re.search(r"project\(ndbroker VERSION ([\d.]+)", open("CMakeLists.txt").read())[1]
assert manifest["version"] == version, f'vcpkg.json has version {manifest["version"]}, CMakeLists.txt {version}'
names = {d if isinstance(d, str) else d["name"] for d in manifest["dependencies"]}
needed = set("abseil spdlog cli11 re2 protobuf grpc prometheus-cpp zlib sqlite3 tomlplusplus gtest".split())
assert names == needed, names ^ needed
CHECK
echo "configured for clang-cl"
