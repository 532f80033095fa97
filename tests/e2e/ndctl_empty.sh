#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Every list and show of a broker that holds nothing, in every format; ids that do not exist.
source "$(dirname "$0")/lib.sh"
start_broker

for noun in listener connection endpoint port session qp mr; do
  kind=${noun^}List
  [ "$noun" != qp ] || kind=QueuePairList
  [ "$noun" != mr ] || kind=MemoryRegionList
  expect 0 ndctl $noun list -o json
  json "$out" ".apiVersion == \"ndbroker/v1\" and .kind == \"$kind\" and .items == []"
  golden "empty_$noun" "$out"
  expect 0 ndctl $noun -o json
  json "$out" '.items == []'
  expect 0 ndctl $noun list
  [ "$(wc -l <<< "$out")" -eq 1 ] || fail "$noun list has more than its header"
  expect 0 ndctl $noun list --no-headers
  [ -z "$out" ] || fail "$noun list --no-headers wrote: $out"
  for format in wide jsonl yaml name csv; do expect 0 ndctl $noun list -o $format; done
done
for id in 1 c-ffff x- "" "../../etc/passwd" "$(printf 'x%.0s' $(seq 5000))"; do
  expect 3 ndctl connection show -- "$id"
  expect 3 ndctl connection kill -- "$id"
  expect 3 ndctl session kill -- "$id"
  expect 3 ndctl listener pause -- "$id"
  expect 3 ndctl listener resume -- "$id"
  expect 3 ndctl adapter show -- "$id"
  expect 3 ndctl adapter disable -- "$id"
  expect 3 ndctl adapter disable -o json -- "$id"
  json "$err" '.error.code == "NOT_FOUND"'
done

expect 0 ndctl status
contains "$out" "running for"
expect 0 ndctl status -o json
golden status "$out"
expect 0 ndctl status -o yaml
contains "$out" "kind: BrokerStatus"
expect 0 ndctl adapter list -o json
golden adapter_list "$out"
expect 0 ndctl adapter show soft0 -o json
golden adapter_show "$out"
expect 0 ndctl adapter list -o custom=name,state --no-headers
[ "$(tr -s ' ' <<< "$out")" = "soft0 enabled" ] || fail "custom columns: $out"

expect 0 ndctl adapter disable soft0
expect 0 ndctl adapter list -o json
json "$out" '.items[0].state == "disabled"'
expect 1 ndctl ping 127.0.0.2:7000
expect 0 ndctl adapter enable soft0 -o json
json "$out" '.kind == "Outcome" and .status == "SUCCESS"'
expect 0 ndctl adapter list -o json
json "$out" '.items[0].state == "enabled"'

expect 0 ndctl ping -c 3 -o json
json "$out" '.kind == "BrokerPing" and .round_trip.count == 3 and .round_trip.min_us > 0'
expect 0 ndctl version -o json
json "$out" '.ndctl == .broker'
expect 1 ndctl testing skip-time 5   # This broker was not started for that.

# A terminal gets colours, a pipe does not; NO_COLOR decides over the terminal.
expect 0 ndctl adapter list --color always
contains "$out" $'\033[32menabled'
expect 0 script -qec "TERM=xterm $bin/ndctl adapter list" /dev/null
contains "$out" $'\033[32menabled'
expect 0 script -qec "TERM=xterm NO_COLOR=1 $bin/ndctl adapter list" /dev/null
[[ $out != *$'\033['* ]] || fail "NO_COLOR is not obeyed"

kill -STOP "$broker"
expect 6 ndctl status --timeout 0.3
kill -CONT "$broker"
expect 0 ndctl status
done_well
