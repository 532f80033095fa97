#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Microsoft's programs for Network Direct (github.com/microsoft/NetworkDirect, MIT) over ndbrokernd.dll under Wine. Their
# sources are fetched, compiled as they are with mingw-w64 and tests/windows/ms_shim_win.h, and never committed. Prints a
# table; exit 0: every program ended with 0, as server and as client. 77: there are no sources.
#
# usage: tests/windows/ms.sh [PROGRAM...]     without programs: all
#   NDBROKER_MS_SOURCE   a folder with the sources (default: fetched into build/windows/ms-source)
#   NDBROKER_MS_ADDRESS  an address of the host other than 127.0.0.1 (default: the first one)
#   NDBROKER_ND_COMPAT   compatibility words of the provider (default here: refused badnet sge; docs/windows.md)
set -euo pipefail
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../.."
case ${1-} in
  -h | --help) sed -n '3,11s/^# \{0,1\}//p' tests/windows/ms.sh && exit 0 ;;
esac
url=https://github.com/microsoft/NetworkDirect.git
commit=043f1bf
source=${NDBROKER_MS_SOURCE:-build/windows/ms-source}
if [ ! -e "$source/src/ndutil/ndspi.h" ]; then
  [ -z "${NDBROKER_MS_SOURCE:-}" ] || { echo "$source has no src/ndutil/ndspi.h" >&2; exit 2; }
  { git clone --quiet "$url" "$source.new" && git -C "$source.new" checkout --quiet "$commit"; } || {
    rm -rf "$source.new"
    echo "did not run: the sources cannot be fetched from $url; see NDBROKER_MS_SOURCE" >&2
    exit 77
  }
  mv "$source.new" "$source"
fi
source=$(readlink -f "$source")/src

# shellcheck source=tests/windows/nd_broker.sh
source tests/windows/nd_broker.sh
out=$build/ms
mkdir -p "$out/include"

compiler=(x86_64-w64-mingw32-g++-posix)
! command -v ccache > /dev/null || compiler=(ccache "${compiler[@]}")
flags=(-std=c++20 -O2 -w -D_WIN32_WINNT=0x0A00 -DWINVER=0x0A00 -DUNICODE -D_UNICODE -DNTDDI_VERSION=0x0A000000
  -I"$out/include" -I"$source/ndutil" -I"$source/examples" -I"$source/examples/ndtestutil")
echo '#include <cguid.h>' > "$out/include/coguid.h" # The Windows SDK's name for it.
awk -f tests/windows/ms_status.awk "$source/ndutil/ndstatus.mc" > "$out/include/ndstatus.h"
objects=()
# compile FILE: into $out, beside those of the others.
compile() {
  local object
  object=$out/$(basename "${1%.*}").o
  "${compiler[@]}" "${flags[@]}" -include tests/windows/ms_shim_win.h -c "$1" -o "$object" 2> "$object.log" || {
    cat "$object.log" >&2
    exit 1
  }
  objects+=("$object")
}
# The rest of the line: the libraries of Microsoft's projects.
link() { "${compiler[@]}" -municode -static -o "$out/$1.exe" "${objects[@]}" "${common[@]}" -lws2_32 -lntdll -luuid -liphlpapi; }
"${compiler[@]}" "${flags[@]}" -c tests/windows/catalogue_seam_win.cc -o "$out/catalogue_seam.o"
for file in "$source"/ndutil/{ndaddr,ndfrmwrk,ndprov}.cpp "$source/examples/ndtestutil/ndtestutil.cpp"; do compile "$file"; done
common=("${objects[@]}" "$out/catalogue_seam.o")

examples=(ndadapterinfo ndcat ndping ndpingpong ndrping ndrpingpong ndmrlat ndmrrate)
unittests=(ndconn ndcq ndmemorytest ndmpic ndmval ndmw)
for name in "${examples[@]}" "${unittests[@]}"; do
  objects=()
  for file in "$source"/{examples,unittests}/"$name"/*.cpp; do
    [ ! -e "$file" ] || compile "$file"
  done
  link "$name"
done
"${compiler[@]}" "${flags[@]}" -include tests/windows/ms_shim_win.h -I. -Ibase/include -Iclient-lib/include -static \
  tests/windows/ms_layout.cc -o "$out/ms_layout.exe" -lws2_32

# The programs ask the routing table for their own address, and Wine never answers with 127.0.0.1.
address=${NDBROKER_MS_ADDRESS:-$(hostname -I | cut -d' ' -f1)}
start_broker ms "$address" 4990
run_wine 60 "$out/ms_layout.exe"
install_entry
export NDBROKER_ND_COMPAT=${NDBROKER_ND_COMPAT-refused badnet sge}
failed=0
printf '%-34s %7s %7s %8s  %s\n' program server client seconds result
wanted() {
  local name=$1
  shift
  [ $# -eq 0 ] || [[ " $* " == *" ${name%% *} "* ]]
}
row() {
  local result=ok
  [[ $2$3 =~ ^(0|-)(0|-)$ ]] || { result="FAILED ($out/log)" && failed=1; }
  printf '%-34s %7s %7s %8s  %s\n' "$1" "$2" "$3" "$4" "$result"
}
log_of() { echo "$out/log/$(tr ' ' _ <<< "$1")-$2.log"; }
mkdir -p "$out/log"
# single PROGRAM ARGUMENTS...
single() {
  local started=$SECONDS status=0
  run_wine 300 "$out/$1.exe" "${@:2}" > "$(log_of "$1" only)" 2>&1 || status=$?
  row "$1" - "$status" $((SECONDS - started))
}
# pair NAME PROGRAM "SERVER ARGUMENTS" "CLIENT ARGUMENTS"
pair() {
  local started=$SECONDS server=0 client=0 log process
  log=$(log_of "$1" server)
  # The words of the arguments are few and known.
  # shellcheck disable=SC2086
  run_wine "${limit:-300}" "$out/$2.exe" $3 > "$log" 2>&1 &
  process=$!
  sleep 2
  # shellcheck disable=SC2086
  run_wine "${limit:-300}" "$out/$2.exe" $4 > "$(log_of "$1" client)" 2>&1 || client=$?
  wait "$process" || server=$?
  row "$1" "$server" "$client" $((SECONDS - started))
}

for name in ndadapterinfo ndcat ndcq ndmrlat ndmrrate; do
  ! wanted "$name" "$@" || single "$name" "$address"
done
port=54400
for name in ndping ndpingpong ndrpingpong; do
  wanted "$name" "$@" || continue
  for mode in p b; do
    port=$((port + 1))
    pair "$name -$mode" "$name" "-s -$mode $address:$port" "-c -$mode $address:$port"
  done
done
# Its server needs -r, too, for the rights of its window; Writes are the default, because -w means -r in its source.
if wanted ndrping "$@"; then
  for mode in '-p' '-p -r' '-b' '-b -r'; do
    port=$((port + 1))
    pair "ndrping $mode" ndrping "-s $mode $address:$port" "-c $mode $address:$port"
  done
fi
for name in ndconn ndmval ndmw; do
  wanted "$name" "$@" || continue
  port=$((port + 1))
  pair "$name" "$name" "-s $address:$port" "-c $address:$port"
done
! wanted ndmpic "$@" || pair ndmpic ndmpic "-s $address $address" "-c $address $address"
if wanted ndmemorytest "$@"; then
  for case in NdConnClose NdConnListenClosing NdConnReject NdDualConnection NdDualListen NdInvalidIP NdInvalidRead \
    NdInvalidWrite NdLargePrivateData NdLargeQPDepth NdMRDeregister NdMRInvalidBuffer NdOverRead NdOverWrite NdQpMax \
    NdReceiveFlushQP NdSendNoReceive NdWriteViolation NdReceiveConnClosed; do
    port=$((port + 1))
    if [ "$case" = NdReceiveConnClosed ]; then
      # It waits for a Receive that completes CANCELED when the peer closes: a compatibility switch (docs/behaviour.md, c.3).
      printf '[compat]\nflush-on-peer-disconnect = true\n' > "$WINEPREFIX/drive_c/flush.toml"
      start_broker flush "$address" 4992 --config 'C:\flush.toml'
    fi
    pair "ndmemorytest $case" ndmemorytest "-s -t $case $address:$port" "-c -t $case $address:$port"
  done
fi
exit "$failed"
