#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The stream of changes: each format, a filter, the end of the broker.
source "$(dirname "$0")/lib.sh"
start_broker

"$bin/ndctl" events -o json > "$work/events.json" 2> "$work/events.err" &
watcher=$!
"$bin/ndctl" events --filter 'type=listener.*' --count 1 -o yaml > "$work/events.yaml" &
counted=$!
# The stream prints nothing at its start, so the test waits for a first event.
seen() {
  "$bin/ndctl" ping --serve 127.0.0.2:7000 -c 1 > /dev/null 2>&1 &
  local server=$!
  until_true "the listener" count_is 1 listener list --filter state=listening
  "$bin/ndctl" ping 127.0.0.2:7000 -c 1 > /dev/null
  wait "$server"
  [ -s "$work/events.json" ] && [ -s "$work/events.yaml" ]
}
until_true "an event" seen
wait "$counted" || fail "events --count 1 ended with $?"
contains "$(cat "$work/events.yaml")" "type: listener."
until_true "whole events" bash -c "jq -es 'any(.type | startswith(\"connection.\"))' '$work/events.json' > /dev/null"
events=$(jq -s . "$work/events.json")
json "$events" 'all(.time | test("^20[0-9][0-9]-[0-9-]+T[0-9:.]+Z$"))'
json "$events" 'all((.lost == 0) and (.type | length > 0))'
json "$events" 'any(.type | startswith("session."))'
expect 2 ndctl events --filter tipe=x
contains "$err" "did you mean"

# Without --follow the command prints remembered events and ends; with it the stream continues.
expect 0 ndctl events --since 1h -o jsonl
json "$(jq -s . <<< "$out")" 'any(.type == "listener.listening")'
expect 0 ndctl events --since 1h --type 'session.*' -o jsonl
json "$(jq -s . <<< "$out")" 'length > 0 and all(.type | startswith("session."))'
expect 0 ndctl events --since 1h --follow --count 1
expect 2 ndctl events --since tomorrow
contains "$err" "is not"

kill "$broker"
status=0
wait "$watcher" || status=$?
[ "$status" -eq 4 ] || fail "events ended with $status when the broker did: $(cat "$work/events.err")"
done_well
