# SPDX-License-Identifier: Apache-2.0
# bench.sh FOLDER [ROUNDS]: in the virtual machine, compares ndbroker with rdmacm-utils and perftest on the same
# device, in interleaved rounds (3). Prints the medians and their ratio, and SLOW when the ratio exceeds its bound.
# Under emulation only ratios are meaningful. Exit code: rows without a value.
FOLDER=$1 ROUNDS=${2:-3}
export LD_LIBRARY_PATH=$FOLDER NDBROKER_DIR=/run/ndbroker-bench
OUT=$(mktemp -d)
PORT=7400 FAILED=0
"$FOLDER/ndbrokerd" --dir "$NDBROKER_DIR" >/tmp/bench.log 2>&1 & BROKER=$!
for _ in $(seq 200); do "$FOLDER/ndctl" adapter list 2>/dev/null | grep -q siw0 && break; sleep 0.1; done
now() { date +%s%N; }
keep() { [ -n "$2" ] && echo "$2" >> "$OUT/$1"; } # row.whose value
ours() { # adapter address row field arguments...
  local adapter=$1 address=$2 row=$3 field=$4
  shift 4
  keep "$adapter.$row.ours" "$(timeout 120 "$FOLDER/ndperf" --adapter "$adapter" --address "$address" --json "$@" | jq -r ".$field // empty")"
}
pair() { # adapter row: seconds of a client, given as words after --, with its server before it
  local key=$1 server=() client=()
  shift
  while [ "$1" != -- ]; do server+=("$1"); shift; done
  shift; client=("$@")
  timeout 120 "${server[@]}" >/dev/null 2>&1 & local pid=$!
  sleep 1
  local begun; begun=$(now)
  timeout 120 "${client[@]}" >/dev/null 2>&1 && keep "$key" "$(awk "BEGIN { print ($(now) - $begun) / 1e9 }")"
  wait $pid
}
perftest() { # adapter row column program arguments...
  local key=$1.$2.theirs column=$3 program=$4 value
  shift 4
  timeout 120 "$program" "$@" -p $PORT >/dev/null 2>&1 & local pid=$!
  sleep 1
  value=$(timeout 120 "$program" "$@" -p $PORT "$ADDRESS" 2>/dev/null | awk -v c="$column" '$1 ~ /^[0-9]+$/ { v = $c } END { print v }')
  wait $pid
  [ "$value" = 0.00 ] || keep "$key" "$value"
}
for ((round = 1; round <= ROUNDS; round++)); do
  for adapter in rxe0 siw0; do
    ADDRESS=$([ $adapter = rxe0 ] && echo 10.9.0.1 || echo 10.9.1.1)
    PORT=$((PORT + 1))
    pair $adapter.connect.theirs ucmatose -b $ADDRESS -c 100 -C 0 -p $PORT -- ucmatose -s $ADDRESS -c 100 -C 0 -p $PORT
    PORT=$((PORT + 1))
    pair $adapter.connect-one.theirs ucmatose -b $ADDRESS -c 1 -C 0 -p $PORT -- ucmatose -s $ADDRESS -c 1 -C 0 -p $PORT
    ours $adapter $ADDRESS connect per_s --op connect --metric rate --block --window 100 --iterations 100
    PORT=$((PORT + 1))
    pair $adapter.rping.theirs rping -s -a $ADDRESS -p $PORT -C 100 -- rping -c -a $ADDRESS -p $PORT -C 100
    pair $adapter.rping.ours "$FOLDER/foreign_peer" rping server $adapter $ADDRESS:$((PORT + 1000)) 100 -- \
      "$FOLDER/foreign_peer" rping client $adapter $ADDRESS:$((PORT + 1000)) 100
    PORT=$((PORT + 1))
    perftest $adapter send-lat 6 ib_send_lat -d $adapter -R -s 64 -n 1000 -I 0
    ours $adapter $ADDRESS send-lat p50_us --op send --metric lat --size 64 --iterations 1000
    PORT=$((PORT + 1))
    perftest $adapter write-bw 4 ib_write_bw -d $adapter -R -s 65536 -n 2000 -t 64
    ours $adapter $ADDRESS write-bw gbytes_per_s --op write --metric bw --size 65536 --iterations 2000 --window 64
    PORT=$((PORT + 1))
    perftest $adapter send-bw 4 ib_send_bw -d $adapter -R -s 65536 -n 2000 -t 64
    ours $adapter $ADDRESS send-bw gbytes_per_s --op send --metric bw --size 65536 --iterations 2000 --window 64
  done
done
kill $BROKER
median() { [ -s "$OUT/$1" ] && sort -g "$OUT/$1" | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'; }
row() { # adapter row theirs-name unit ours-expression bound
  local from=${2%-net} a t
  a=$(median "$1.$from.ours") t=$(median "$1.$from.theirs")
  [ "$2" = "$from" ] || t=$(awk "BEGIN { print ${t:-0} - $(median "$1.$from-one.theirs") }")
  awk -v name="$1 $2" -v peer="$3" -v unit="$4" -v a="$a" -v t="$t" -v how="$5" -v bound="$6" 'BEGIN {
    if (a == "" || t == "") { printf "FAIL %s: no value (ours \"%s\", %s \"%s\")\n", name, a, peer, t; exit 1 }
    if (how == "seconds-of-100") a = 100 / a
    if (how == "mib") a = a * 1e9 / 1048576
    ratio = how == "mib" ? t / a : a / t
    verdict = bound == "-" ? "    " : ratio <= bound ? "ok  " : "SLOW"
    printf "%s %-16s ours %10.3f  %-12s %10.3f %-6s ratio %.2f (%s)\n", verdict, name, a, peer, t, unit, ratio,
      bound == "-" ? "without its start" : "at most " bound }' ||
    FAILED=$((FAILED + 1))
}
for adapter in rxe0 siw0; do
  # The clock of ndperf runs only while it connects, so the second row excludes the start of ucmatose.
  row $adapter connect ucmatose s seconds-of-100 2.5
  row $adapter connect-net ucmatose s seconds-of-100 -
  row $adapter rping "rping" s as-it-is 2.5
  row $adapter send-lat ib_send_lat us as-it-is 1.05
  row $adapter write-bw ib_write_bw MiB/s mib 1.05
  row $adapter send-bw ib_send_bw MiB/s mib 1.05
done
rm -rf "$OUT"
exit $FAILED
