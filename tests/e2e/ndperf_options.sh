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
expect 2 "$bin/ndperf" --self --op connect --batch 4
contains "$err" "--batch"
expect 2 "$bin/ndperf" --self --op write --touch
expect 2 "$bin/ndperf" --self --op connect --malloc
expect 2 "$bin/ndperf" --self --pin --cpus 0
expect 2 "$bin/ndperf" --cpus 0,0,0
contains "$err" "--self"
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
cpu=$(taskset -cp $$ | sed 's/.*: *//; s/[-,].*//')
expect 0 "$bin/ndperf" --self --transport iwarp --cpus "$cpu,$cpu,$cpu,$cpu" --iterations 40 --batch 10 --histogram --json
json "$out" '[.histogram[][1]] | add == 4'
expect 1 "$bin/ndperf" --self --cpus 1023 --iterations 10
contains "$err" "CPU 1023"
for op in send write read; do
  expect 0 "$bin/ndperf" --self --op "$op" --malloc --iterations 100 --json
done
expect 0 "$bin/ndperf" --self --op send --metric bw --size 4096 --touch --iterations 100 --json
json "$out" '.gbytes_per_s > 0'
expect 0 "$bin/ndperf" --self --op connect --metric rate --iterations 40 --warmup 20 --json
json "$out" '.per_s > 0'
expect 0 "$bin/ndperf" --self --op resolve --iterations 50 --json
json "$out" '.p50_us > 0'
expect 0 "$bin/ndperf" --self --op resolve --metric rate --iterations 50 --window 4 --json
json "$out" '.per_s > 0'
done_well
