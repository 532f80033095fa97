#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The speed of unmodified programs beside that of ndperf, in the same interleaved rounds: the median of each, and their
# ratio. A ratio tells more than a time when other programs use the machine. Nothing is asserted. The client and its broker
# have the first processor, the server and its broker the second one, for the programs and for ndperf.
# Bandwidths are of as many messages as ndperf sends. It connects and warms up before its clock starts; perftest starts its
# clock at RTR, and the first messages wait for the connection, which is a tenth of 5000 messages.
# usage: speed.sh BUILD_DIR [--rounds N] [--spin] [--share-memory | --no-share-memory] [--only REGEX]
#   default 7 rounds; --spin, --[no-]share-memory: programs run with these options of 'ndctl run'; --only: the rows whose names match (lat-one, send-bw,
#   atomic, cmtime, rstream, ucx, ...)
set -u
build=$(cd "$1" && pwd); shift
rounds=7 options= only=.
while [ $# -gt 0 ]; do
  case $1 in
    --rounds) rounds=$2; shift 2;;
    --spin | --share-memory | --no-share-memory) options="$options $1"; shift;;
    --only) only=$2; shift 2;;
    *) echo "unknown option $1" >&2; exit 2;;
  esac
done
if [ -z "${NDBROKER_VERBS_ISOLATED:-}" ]; then
  for how in --net '--user --map-root-user --net'; do
    unshare $how true 2> /dev/null &&
      NDBROKER_VERBS_ISOLATED=1 exec unshare $how "$(readlink -f "$0")" "$build" --rounds "$rounds" $options --only "$only"
  done
  echo "SKIP: no network namespaces"; exit 77
fi
work=$(mktemp -d) pids=() patience=60
trap 'for pid in "${pids[@]}"; do kill "$pid" 2> /dev/null; done; wait; rm -rf "$work"' EXIT
ip link set lo up
ndctl=$build/bin/ndctl
mapfile -t cpus < <(taskset -cp $$ | sed 's/.*: //' | tr , '\n' | while IFS=- read -r from to; do seq "$from" "${to:-$from}"; done)
[ ${#cpus[@]} -ge 2 ] || { echo "SKIP: two processors are needed"; exit 77; }
client_cpu=${cpus[0]} server_cpu=${cpus[1]}
unshare --net sleep 3600 & pids+=($!)
second=$!
for _ in $(seq 50); do [ "$(readlink /proc/$second/ns/net)" != "$(readlink /proc/self/ns/net)" ] && break; sleep 0.1; done
near=10.91.0.1 far=10.91.0.2
in_second=(nsenter --target "$second" --net)
ip link add veth1 type veth peer name veth2 netns "$second" && ip addr add $near/24 dev veth1 && ip link set veth1 up
"${in_second[@]}" ip addr add $far/24 dev veth2 && "${in_second[@]}" ip link set veth2 up && "${in_second[@]}" ip link set lo up
start_broker() {
  mkdir "$work/$1"
  taskset -c $([ $1 = near ] && echo "$client_cpu" || echo "$server_cpu") "${@:3}" "$build/bin/ndbrokerd" --dir "$work/$1" --adapter-address "$2" > "$work/$1.log" 2>&1 & pids+=($!)
  for _ in $(seq 100); do grep -qs ^READY "$work/$1.log" && return; sleep 0.1; done
  echo "the broker $1 did not start" >&2; exit 1
}
start_broker near $near
start_broker far $far "${in_second[@]}"

# pair WHERE SERVER CLIENT: prints what the client prints. @A is the server's address.
pair() {
  local where=$1 server=$2 client=$3 address=$near dir=near stays= status
  local -a enter=(env) run=("$ndctl" run $options --)
  [ "$where" = two ] && { enter=("${in_second[@]}"); address=$far dir=far; }
  case $server in stays:*) stays=1; server=${server#stays:};; esac
  case $server in plain:*) run=(env); server=${server#plain:} client=${client#plain:};; esac
  NDBROKER_DIR=$work/$dir "${enter[@]}" taskset -c $server_cpu timeout $patience "${run[@]}" ${server//@A/$address} > "$work/server.log" 2>&1 < /dev/null &
  local waiter=$!
  sleep 0.7
  NDBROKER_DIR=$work/near taskset -c $client_cpu timeout $patience "${run[@]}" ${client//@A/$address} 2>&1 < /dev/null
  status=$?
  [ -n "$stays" ] && kill $waiter
  wait $waiter 2> /dev/null
  return $status
}
perf() {  # transport operation metric size: microseconds, GB/s
  "$build/bin/ndperf" --self --cpus "$client_cpu,$server_cpu,$client_cpu,$server_cpu" --transport "$1" --op "$2" --metric "$3" --size "$4" --json 2> /dev/null |
    tr ',{}' '\n\n\n' | sed -n 's/.*"\(p50_us\|gbytes_per_s\)":\([0-9.e+-]*\).*/\2/p' | head -1
}
# Of the last line of numbers: column 5 is the median of *_lat in us, column 4 the average of *_bw in MiB/s.
latency() { awk '$1 ~ /^[0-9]+$/ && NF >= 6 {v = $5} END {print v}'; }
bandwidth() { awk '$1 ~ /^[0-9]+$/ && NF >= 4 {v = $4} END {printf "%.3f", v * 1048576 / 1e9}'; }
note() { [ -n "$2" ] && echo "$2" >> "$work/$1"; }
median() { sort -g "$work/$1" 2> /dev/null | awk '{v[NR] = $1} END {if (NR) print v[int((NR + 1) / 2)]; else print "-"}'; }

operations="send write read"
wanted() { [[ $1 =~ $only ]]; }
# Each row and its comparison, one after the other.
one_round() {
  local op where transport
  for op in $operations; do
    for where in one two; do
      [ $where = one ] && transport=local || transport=iwarp
      if wanted "$op-lat-$where" || { [ $op-$where = read-one ] && wanted atomic; }; then
        note "$op-lat-$where" "$(pair $where "ib_${op}_lat -s 8 -n 5000" "ib_${op}_lat -s 8 -n 5000 @A" | latency)"
        note "$op-lat-$where-nd" "$(perf $transport "$op" lat 8)"
      fi
      if wanted "$op-bw-$where"; then
        note "$op-bw-$where" "$(pair $where "ib_${op}_bw -s 65536 -n 65536" "ib_${op}_bw -s 65536 -n 65536 @A" | bandwidth)"
        note "$op-bw-$where-nd" "$(perf $transport "$op" bw 65536)"
      fi
    done
  done
  wanted atomic && note atomic-lat-one "$(pair one 'ib_atomic_lat -n 5000' 'ib_atomic_lat -n 5000 @A' | latency)"
  if wanted cmtime; then
    note cmtime "$(pair one 'stays:cmtime -c 200' 'cmtime -c 200 -s @A' | awk '$1 == "connect" {print $NF}')"
    note cmtime-nd "$(perf local connect lat 8)"
  fi
  if wanted rstream && command -v rstream > /dev/null; then
    note rstream "$(pair one 'rstream -b @A -S 65536 -C 4000 -T b' 'rstream -s @A -S 65536 -C 4000 -T b' | rstream_rate)"
    note rstream-tcp "$(pair one 'plain:rstream -b @A -S 65536 -C 4000 -T b -T s' 'plain:rstream -s @A -S 65536 -C 4000 -T b -T s' | rstream_rate)"
  fi
  if wanted ucx && command -v ucx_perftest > /dev/null; then
    note ucx "$(pair one 'env UCX_TLS=rc_v,self ucx_perftest -t tag_lat -s 8 -n 20000' 'env UCX_TLS=rc_v,self ucx_perftest @A -t tag_lat -s 8 -n 20000' | awk '/Final/ {print $3}')"
    note ucx-tcp "$(pair one 'plain:env UCX_TLS=tcp,self ucx_perftest -t tag_lat -s 8 -n 20000' 'plain:env UCX_TLS=tcp,self ucx_perftest @A -t tag_lat -s 8 -n 20000' | awk '/Final/ {print $3}')"
  fi
}
# Gb/s to GB/s.
rstream_rate() { awk '$2 == "64k" {printf "%.3f", $(NF - 1) / 8}'; }

for round in $(seq "$rounds"); do
  echo "round $round of $rounds" >&2
  one_round
done

# row NAME UNIT OURS THEIRS TARGET
row() {
  local ours theirs ratio
  ours=$(median "$3") theirs=$(median "$4")
  ratio=$(awk -v a="$ours" -v b="$theirs" 'BEGIN {if (a + 0 > 0 && b + 0 > 0) printf "%.2f", a / b; else printf "-"}')
  echo "| $1 | $2 | $ours | $theirs | $ratio | $5 |"
}
echo "| row | unit | program | ndperf, or as named | ratio | target |"
echo "|---|---|--:|--:|--:|---|"
for op in $operations; do row "\`ib_${op}_lat -s 8\`, one broker" us "$op-lat-one" "$op-lat-one-nd" "<= 1.5"; done
for op in $operations; do row "\`ib_${op}_bw -s 65536\`, one broker" GB/s "$op-bw-one" "$op-bw-one-nd" ">= 0.9"; done
for op in $operations; do row "\`ib_${op}_lat -s 8\`, two brokers" us "$op-lat-two" "$op-lat-two-nd" "<= 1.2"; done
for op in $operations; do row "\`ib_${op}_bw -s 65536\`, two brokers" GB/s "$op-bw-two" "$op-bw-two-nd" ">= 0.9"; done
row "\`ib_atomic_lat\`, one broker, beside \`ib_read_lat\`" us atomic-lat-one read-lat-one "<= 2"
row "\`cmtime\`, one connect" us cmtime cmtime-nd "<= 1.5"
row "\`rstream\` 64 KiB, beside TCP" GB/s rstream rstream-tcp ">= 1"
row "\`ucx_perftest\` tag_lat 8 B over rc_v, beside UCX over TCP" us ucx ucx-tcp "<= 0.2"
