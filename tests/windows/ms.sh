#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Microsoft's programs for Network Direct (github.com/microsoft/NetworkDirect, MIT) over ndbrokernd.dll under Wine. Their
# sources are fetched, compiled as they are with mingw-w64 and tests/windows/ms_shim_win.h, and never committed. Prints a
# table; exit 0: every program ended with 0, as server and as client, except for rows that say why not. 77: there are no
# sources.
#
# Each pair runs with one broker, which has the addresses of both programs, and with a broker for each address. Two addresses
# need a network namespace, which root may make; other users have one broker and one address.
#
# usage: tests/windows/ms.sh [PROGRAM...]     without programs: all
#   NDBROKER_MS_SOURCE   a folder with the sources (default: fetched into build/windows/ms-source)
#   NDBROKER_MS_SECONDS  the time of a program that moves more than Wine does in five minutes (default: 40); others have
#                        300 seconds
#   NDBROKER_ND_COMPAT   compatibility words of the provider (default here: refused badnet sge; docs/windows.md)
set -euo pipefail
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../.."
case ${1-} in
  -h | --help) sed -n '3,15s/^# \{0,1\}//p' tests/windows/ms.sh && exit 0 ;;
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

# A network with an address for each of two brokers. Wine asks the table of routes for a program's own address, never
# answers with 127.0.0.1, and takes the device of a route to the other address; the kernel takes both addresses for local.
inside=() network=
if unshare --net true 2> /dev/null; then
  server=198.51.100.1 client=192.0.2.1
  unshare --net sleep infinity &
  network=$!
  until [ "$(readlink "/proc/$network/ns/net")" != "$(readlink /proc/self/ns/net)" ]; do sleep 0.1; done
  inside=(nsenter "--net=/proc/$network/ns/net")
  "${inside[@]}" bash -ec "ip link set lo up
    ip link add left type veth peer name right
    ip addr add $client/24 dev left && ip link set left up
    ip addr add $server/24 dev right && ip link set right up
    ip route add $server/32 dev left && ip route add $client/32 dev right"
else
  server=$(hostname -I | cut -d' ' -f1) client=$server
fi

# shellcheck source=tests/windows/nd_broker.sh
source tests/windows/nd_broker.sh
trap 'end_wine; [ -z "$network" ] || kill "$network"' EXIT
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

# The broker ms has both addresses, ms-server and ms-client have one each. Many programs end at a Receive that completes CANCELED when the peer disconnects, which
# is a compatibility switch (docs/behaviour.md, c.3).
printf '[compat]\nflush-on-peer-disconnect = true\n' > "$WINEPREFIX/drive_c/ms.toml"
both=("$client")
[ -z "$network" ] || both+=(--adapter-address "$server")
start_broker ms "${both[0]}" 4990 "${both[@]:1}" --config 'C:\ms.toml'
if [ -n "$network" ]; then
  start_broker ms-server "$server" 4991 --config 'C:\ms.toml'
  start_broker ms-client "$client" 4991 --config 'C:\ms.toml'
fi
run_wine 60 "$out/ms_layout.exe"
install_entry
export NDBROKER_ND_COMPAT=${NDBROKER_ND_COMPAT-refused badnet sge}
failed=0
printf '%-34s %7s %7s %7s %8s  %s\n' program brokers server client seconds result
wanted() {
  local name=$1
  shift
  [ $# -eq 0 ] || [[ " $* " == *" ${name%% *} "* ]]
}
log_of() { echo "$out/log/$(tr ' ' _ <<< "$1")-$2.log"; }
# traffic NAME BROKER: the operations that the queue pairs of the broker have counted; of ndconn, its connects that are over.
traffic() {
  local words='qp list' pattern='[tr]x_(sends|writes|reads)'
  [ "$1" != ndconn ] || words=status pattern='connect(_failure)?'
  # shellcheck disable=SC2086 # The words are words.
  run_wine 20 "$build/bin/ndctl.exe" --address "C:\\broker-$2" -o json $words | grep -E "\"$pattern\""
}
# limit_of NAME BROKERS: the time of a program in seconds. Some move 2 GB or 500,000 messages for each of 23 sizes, which ends in time where they poll and
# have one broker; ndmw makes millions of Writes one after the other.
limit_of() {
  case $1/$2 in
    "ndping -p/1" | "ndpingpong -p/1" | "ndrping -p"*/1) echo 300 ;;
    ndping* | ndpingpong* | ndrping* | ndrpingpong* | ndmw/*) echo "${NDBROKER_MS_SECONDS:-40}" ;;
    *) echo 300 ;;
  esac
}
# watch_traffic NAME BROKER FILE SECONDS: two looks shortly before the time of the programs is over.
watch_traffic() {
  local _
  for _ in $(seq $(($4 > 60 ? $4 - 40 : $4 / 2))); do sleep 1; done
  traffic "$1" "$2" > "$3.before"
  sleep 10
  traffic "$1" "$2" > "$3.after"
}
# measures NAME BROKERS SERVER: the program has printed the result of a size, or data still moved when its time was almost over.
measures() {
  local log
  if [ "$3" = - ]; then
    log=$(log_of "$1" only)
    grep -qaE '^ *[0-9]+l? +[0-9.]+l? ' "$log"
  else
    log=$(log_of "$1" "$2-traffic")
    [ -s "$log.before" ] && [ -s "$log.after" ] && ! cmp -s "$log.before" "$log.after"
  fi
}
# row NAME BROKERS SERVER CLIENT SECONDS
row() {
  local result=ok
  case $1/$2/$3/$4 in
    */0/0 | */-/0) ;;
    ndmval/1/0/114 | "ndmemorytest NdMRDeregister"/?/147/0) result='explained in docs/windows.md' ;;
    # When the server's time is over, the client ends somehow. Without a result of a size and without traffic a program hangs.
    ndping*/124/* | ndpingpong*/124/* | ndrping*/124/* | ndrpingpong*/124/* | ndmw/*/124/* | ndconn/*/124/* | ndmrlat/*/124 | ndmrrate/*/124)
      if measures "$@"; then result="no end within $(limit_of "$1" "$2") s"; else result="FAILED ($out/log)" failed=1; fi ;;
    *) result="FAILED ($out/log)" failed=1 ;;
  esac
  printf '%-34s %7s %7s %7s %8s  %s\n' "$@" "$result"
}
# await_listener BROKER PROCESS: until the server listens on $port, or has ended; at most ten looks, because some cases do not listen.
await_listener() {
  local _
  for _ in $(seq 10); do
    sleep 1
    kill -0 "$2" 2> /dev/null || return 0
    ! run_wine 20 "$build/bin/ndctl.exe" --address "C:\\broker-$1" -o json listener list | grep ":$port\"" > /dev/null || return 0
  done
}
mkdir -p "$out/log"
# single PROGRAM ARGUMENTS...
single() {
  local started=$SECONDS status=0
  run_wine "$(limit_of "$1" 1)" "$out/$1.exe" "${@:2}" > "$(log_of "$1" only)" 2>&1 || status=$?
  row "$1" 1 - "$status" $((SECONDS - started))
}
# pair NAME PROGRAM "SERVER ARGUMENTS" "CLIENT ARGUMENTS": with one broker, then with two.
pair() {
  local number server_status client_status started log process watcher seconds
  for number in 1 2; do
    local server_broker=ms client_broker=ms
    seconds=$(limit_of "$1" "$number")
    if [ "$number" = 2 ]; then
      [ -n "$network" ] || continue
      server_broker+=-server client_broker+=-client
    fi
    started=$SECONDS server_status=0 client_status=0
    log=$(log_of "$1" "$number-server")
    # The words of the arguments are few and known.
    # shellcheck disable=SC2086
    NDBROKER_DIR="C:\\broker-$server_broker" run_wine "$seconds" "$out/$2.exe" $3 > "$log" 2>&1 &
    process=$!
    rm -f "$(log_of "$1" "$number-traffic")".*
    watch_traffic "$1" "$client_broker" "$(log_of "$1" "$number-traffic")" "$seconds" &
    watcher=$!
    if [ "$2" = ndmpic ]; then sleep 2; else await_listener "$server_broker" "$process"; fi  # Each end of ndmpic listens and connects.
    # shellcheck disable=SC2086
    NDBROKER_DIR="C:\\broker-$client_broker" run_wine "$seconds" "$out/$2.exe" $4 > "$(log_of "$1" "$number-client")" 2>&1 ||
      client_status=$?
    wait "$process" || server_status=$?
    kill "$watcher" 2> /dev/null || true
    wait "$watcher" 2> /dev/null || true
    row "$1" "$number" "$server_status" "$client_status" $((SECONDS - started))
  done
}

for name in ndadapterinfo ndcat ndcq ndmrlat ndmrrate; do
  ! wanted "$name" "$@" || NDBROKER_DIR='C:\broker-ms' single "$name" "$client"
done
port=54400
for name in ndping ndpingpong ndrpingpong; do
  wanted "$name" "$@" || continue
  for mode in p b; do
    port=$((port + 1))
    pair "$name -$mode" "$name" "-s -$mode $server:$port" "-c -$mode $server:$port"
  done
done
# Its server needs -r, too, for the rights of its window; Writes are the default, because -w means -r in its source.
if wanted ndrping "$@"; then
  for mode in '-p' '-p -r' '-b' '-b -r'; do
    port=$((port + 1))
    pair "ndrping $mode" ndrping "-s $mode $server:$port" "-c $mode $server:$port"
  done
fi
for name in ndconn ndmval ndmw; do
  wanted "$name" "$@" || continue
  port=$((port + 1))
  pair "$name" "$name" "-s $server:$port" "-c $server:$port"
done
! wanted ndmpic "$@" || pair ndmpic ndmpic "-s $server $client" "-c $client $server"
if wanted ndmemorytest "$@"; then
  for case in NdConnClose NdConnListenClosing NdConnReject NdDualConnection NdDualListen NdInvalidIP NdInvalidRead \
    NdInvalidWrite NdLargePrivateData NdLargeQPDepth NdMRDeregister NdMRInvalidBuffer NdOverRead NdOverWrite NdQpMax \
    NdReceiveFlushQP NdSendNoReceive NdWriteViolation NdReceiveConnClosed; do
    port=$((port + 1))
    pair "ndmemorytest $case" ndmemorytest "-s -t $case $server:$port" "-c -t $case $server:$port"
  done
fi
exit "$failed"
