#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Collects the files that a program of Windows needs to use the library of build/windows: ndbroker.dll, its import library,
# the headers, the examples, and the module of PowerShell.
# usage: deploy/windows/sdk.sh [FOLDER]    default: build/windows/sdk, which is made afresh
#
# A program is compiled with mingw-w64 of the same version and POSIX threads, because the headers have classes of the C++
# library:  x86_64-w64-mingw32-g++-posix -std=c++20 -IFOLDER/include PROGRAM.cc -LFOLDER/lib -lndbroker
set -euo pipefail
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../.."
source deploy/setup.sh
build=build/windows
folder=${1:-$build/sdk}
for file in "$build"/bin/ndbroker.dll "$build"/lib/libndbroker.dll.a; do
  [ -e "$file" ] || die "$file does not exist; run deploy/windows/build.sh first"
done
rm -rf "$folder"
mkdir -p "$folder"/{bin,lib,include,examples}
x86_64-w64-mingw32-strip -o "$folder/bin/ndbroker.dll" "$build/bin/ndbroker.dll"
cp "$build/lib/libndbroker.dll.a" "$folder/lib"
cp -r client-lib/include/nd base/include/nd "$folder/include"
cp client-lib/examples/{example.h,ping_pong.cc,remote_memory.cc,shared_endpoint.cc} "$folder/examples"
cp -r deploy/windows/NdBroker LICENSE "$folder"
say "$folder: $(find "$folder" -type f | wc -l) files"
