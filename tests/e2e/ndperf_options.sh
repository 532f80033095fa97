#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ndperf's other options: a running broker, no CRC, pinning, and refused options.
source "$(dirname "$0")/lib.sh"

expect 2 "$bin/ndperf" --op connect --metric bw
expect 2 "$bin/ndperf" --op sned
contains "$err" "send"
expect 2 "$bin/ndperf" --size 0
expect 2 "$bin/ndperf" --transport iwarp
expect 2 "$bin/ndperf" --poll --block
expect 2 "$bin/ndperf" --op write --metric lat --notify
contains "$err" "notify"
expect 2 "$bin/ndperf" --self --op resolve --metric bw
expect 2 "$bin/ndperf" --no-crc
expect 2 "$bin/ndperf" --self --metric bw --histogram
contains "$err" "latencies"
expect 2 "$bin/ndperf" --self --broker /x
expect 1 "$bin/ndperf" --iterations 10   # No broker.
contains "$err" "$NDBROKER_DIR"

start_broker
expect 0 "$bin/ndperf" --iterations 100 --json
json "$out" '.transport == "local"'
expect 0 "$bin/ndperf" --broker "$NDBROKER_DIR" --address 127.0.0.2 --op read --metric rate --iterations 100 --window 4 --json
json "$out" '.window == 4'
until_true "everything given back" count_is 0 port list
if [ "$(nproc)" -ge 2 ]; then
  expect 0 "$bin/ndperf" --iterations 100 --pin --json
fi
expect 0 "$bin/ndperf" --self --transport iwarp --no-crc --op write --metric bw --iterations 50 --json
json "$out" '.crc == false'
expect 0 "$bin/ndperf" --self --iterations 100 --warmup 5 --histogram --json
json "$out" '[.histogram[][1]] | add == 100'
expect 0 "$bin/ndperf" --self --op resolve --iterations 50 --json
json "$out" '.p50_us > 0'
expect 0 "$bin/ndperf" --self --op resolve --metric rate --iterations 50 --window 4 --json
json "$out" '.per_s > 0'
left=$(find "${TMPDIR:-/tmp}" -maxdepth 1 -name 'ndperf-*' -newer "$work/broker.out" | wc -l)
[ "$left" -eq 0 ] || echo "note: other ndperf runs have directories: $left"
done_well
