#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Past connections: trace, history, stats.
source "$(dirname "$0")/lib.sh"
start_broker

"$bin/ndctl" ping --serve 127.0.0.2:7000 > "$work/serve.out" 2>&1 &
until_true "the listener" count_is 1 listener list --filter state=listening

# A connection that succeeds, in three views.
expect 0 ndctl trace 127.0.0.2:7000
contains "$out" "connected in"
expect 0 ndctl trace 127.0.0.2:7000 -o json
json "$out" '.kind == "Trace" and .result == "connected" and .failed_phase == "" and .total_seconds > 0'
json "$out" '[.steps[] | select(.side == "ndctl") | .phase] == ["open","resolve","create","bind","connect","complete","disconnect"]'
json "$out" '[.steps[] | select(.side == "broker")] | length > 0'
json "$out" '[.steps[] | select(.side == "peer")] | length > 0'
json "$out" 'all(.steps[]; .seconds >= 0 and .meaning != "")'
golden trace "$(jq '.local |= sub(":[0-9]+$"; ":<port>")' <<< "$out")"

# A connection that fails, with its reason.
expect 1 ndctl trace 127.0.0.2:7999
contains "$out" "failed in phase connect"
contains "$err" "CONNECTION_REFUSED (no listener)"
expect 1 ndctl trace 127.0.0.2:7999 -o json
json "$out" '.result == "failed" and .failed_phase == "connect" and .status == "CONNECTION_REFUSED"'
json "$err" '.error.status == "CONNECTION_REFUSED"'
expect 1 ndctl trace 203.0.113.1:7000 --timeout 300ms

# History: both connections, newest first, and filters.
has_history() { [ "$(ndctl history -o name "$@" | wc -l)" -gt 0 ]; }
until_true "a failed attempt in the history" has_history --failed --filter 'why=no listener'
expect 0 ndctl history --failed -o json
json "$out" '.kind == "HistoryList" and all(.items[]; .outcome != "closed")'
json "$out" 'any(.items[]; .status == "CONNECTION_REFUSED" and .detail == "no listener" and .owner.application == "ndctl-trace")'
until_true "a closed connection in the history" has_history --filter outcome=closed --app ndctl-trace
expect 0 ndctl history --app ndctl-trace --filter outcome=closed --filter role=active --limit 1 -o json
json "$out" '.items | length == 1'
golden history "$(jq '.items[] |= (.local |= sub(":[0-9]+$"; ":<port>"))' <<< "$out")"
expect 0 ndctl history --since 2026-01-01 --until 2026-01-02 -q
[ -z "$out" ] || fail "something happened before this test: $out"
expect 0 ndctl history --limit 1
[ "$(wc -l <<< "$out")" -eq 2 ] || fail "--limit 1 shows: $out"
contains "$err" "only the first 1"
expect 2 ndctl history --since whenever
expect 2 ndctl history --limit 4000000000
expect 0 ndctl history --adapter nope -q
[ -z "$out" ] || fail "there is no such adapter: $out"

# Statistics: totals, then rates.
expect 0 ndctl ping 127.0.0.2:7000 -c 10 --size 1000
expect 0 ndctl stats -o json
golden stats "$(jq '.items |= map(select(.name == "total")) | .items[0] |= with_entries(if .value | type == "number" then .value = "<number>" else . end)' <<< "$out")"
json "$out" '[.items[] | select(.name == "total") | .tx_bytes] == [[.items[] | select(.name != "total") | .tx_bytes] | add]'
json "$out" 'any(.items[]; .name == "ndctl-ping" and .tx_bytes >= 10000 and .connects >= 1)'
for by in peer adapter; do expect 0 ndctl stats --by $by; done
contains "$out" "soft0"
"$bin/ndperf" --op write --metric rate --size 64 --iterations 1000000000 > "$work/perf.out" 2>&1 &
until_true "a connection" count_is 2 connection list --filter app='ndperf-*' --filter state=Connected
expect 0 ndctl stats --interval 0.3 --count 2 -o jsonl
json "$(jq -s . <<< "$out")" 'length == 3 and (.[0].items[0] | has("per_second") | not)
  and any(.[2].items[]; .name == "ndperf-client" and .per_second.tx_bytes > 0)'
expect 0 ndctl stats --interval 0.3 --count 1 --sort -TX
contains "$out" "APP (PER S)"
done_well
