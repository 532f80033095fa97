#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ndperf TRANSPORT OP METRIC: three sizes and both ways to wait; the JSON holds exactly the applicable fields.
source "$(dirname "$0")/lib.sh"
transport=$2 op=$3 metric=$4

case $metric in
  lat) keys='["p50_us","p99_99_us","p99_9_us","p99_us"]' ;;
  rate) keys='["per_s"]' ;;
  bw) keys='["gbytes_per_s","per_s"]' ;;
esac
run() {
  expect 0 "$bin/ndperf" --self --transport "$transport" --op "$op" --metric "$metric" --json "$@"
  json "$out" ".op == \"$op\" and .transport == \"$transport\" and .metric == \"$metric\""
  json "$out" "(keys - [\"op\",\"transport\",\"metric\",\"size\",\"iterations\",\"window\",\"wait\",\"crc\"]) == $keys"
  json "$out" "[.[$keys[]]] | all(. > 0)"
}
iterations=300
[ "$op" != connect ] || iterations=20
run --size 1 --iterations $iterations
run --size 4096 --iterations $iterations
run --size 1048576 --iterations 20
if [ "$op-$metric" != write-lat ]; then
  run --size 100 --iterations $iterations --block
  run --size 100 --iterations $iterations --notify
fi
expect 0 "$bin/ndperf" --self --transport "$transport" --op "$op" --metric "$metric" --size 64 --iterations 20
contains "$out" "$transport $op, 64 bytes, 20 times"
done_well
