#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Draining: existing connections continue, new ones are refused, and --wait returns when the last one has ended.
source "$(dirname "$0")/lib.sh"
start_broker

"$bin/ndctl" ping --serve 127.0.0.2:7000 > "$work/serve.out" 2>&1 &
until_true "the listener" count_is 1 listener list --filter state=listening
"$bin/ndperf" --op write --metric rate --size 64 --iterations 1000000000 > "$work/perf.out" 2>&1 &
until_true "a connection" count_is 2 connection list --filter state=Connected

expect 0 ndctl drain --dry-run
contains "$out" "would refuse new"
expect 0 ndctl drain -o json
json "$out" '.kind == "Outcome" and .status == "SUCCESS"'
expect 0 ndctl status -o json
json "$out" '.state == "draining" and .counters.active_connection == 2'
expect 0 ndctl status
contains "$out" "draining"
expect 1 ndctl ping 127.0.0.2:7000
contains "$err" "draining"
contains "$err" "ndctl undrain"
expect 6 ndctl drain --wait --timeout 200ms
contains "$err" "2 connections"
count_is 2 connection list --filter state=Connected || fail "draining ended a connection"

"$bin/ndctl" drain --wait > "$work/wait.out" 2>&1 &
waiter=$!
expect 0 ndctl connection list --filter 'app=ndperf-*' -q
# Kills one end; the other end disconnects by itself.
expect 0 ndctl connection kill "${out%%$'\n'*}"
wait "$waiter" || fail "drain --wait ended with $?: $(cat "$work/wait.out")"
contains "$(cat "$work/wait.out")" "drained"

expect 0 ndctl undrain
expect 0 ndctl ping 127.0.0.2:7000
done_well
