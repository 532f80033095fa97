#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the installer of the programs in build/windows, which deploy/windows/build.sh has made.
# usage: deploy/windows/msi.sh [VERSION [FILE]]    default: the version of CMakeLists.txt,
#                                                  build/windows/ndbroker-VERSION-x64.msi
set -euo pipefail
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../.."
source deploy/setup.sh
install_packages deploy/packages-windows.txt
bin=build/windows/bin
programs=(ndbrokerd.exe ndbroker-ndprobe.exe ndbrokernd.dll ndctl.exe)
for file in "${programs[@]}"; do
  [ -e "$bin/$file" ] || die "$bin/$file does not exist; run deploy/windows/build.sh first"
done
version=${1:-$(sed -n 's/^project(ndbroker VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)}
file=${2:-build/windows/ndbroker-$version-x64.msi}
# Programs without their debugging information. wixl takes relative paths alone.
stripped=build/windows/msi
mkdir -p "$stripped"
for program in "${programs[@]}"; do
  x86_64-w64-mingw32-strip -o "$stripped/$program" "$bin/$program"
done
cp deploy/windows/NdBroker/NdBroker.ps[dm]1 "$stripped"
wixl --arch x64 -D Version="$version" -D Bin="$stripped" -o "$file" deploy/windows/ndbroker.wxs
say "$file: $(stat -c %s "$file") bytes"
