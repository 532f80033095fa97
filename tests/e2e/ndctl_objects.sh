#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Lists, show and every command that changes something, while applications listen and are connected.
source "$(dirname "$0")/lib.sh"
start_broker

"$bin/ndctl" ping --serve 127.0.0.2:7000 > "$work/serve.out" 2> "$work/serve.err" &
serve=$!
until_true "the listener" count_is 1 listener list --filter state=listening

expect 0 ndctl listener list -o json
golden listener_list "$out"
json "$out" ".items[0].owner.pid == $serve and .items[0].owner.uid == $(id -u)"
listener=$(ndctl listener list -o name)
expect 0 ndctl listener show "$listener" -o json
json "$out" ".kind == \"Listener\" and .id == \"$listener\""
expect 0 ndctl listener show "$listener"
contains "$out" "owner.pid:"
expect 0 ndctl port list -o json
golden port_list "$out"
expect 0 ndctl port show 127.0.0.2:7000 -o json
json "$out" '.kind == "Port" and .type == "listener" and .port == 7000'
expect 3 ndctl port show 127.0.0.2:7001
expect 0 ndctl session list -o json
golden session_list "$out"
session=$(ndctl session list -o name)
expect 0 ndctl session show "$session" -o yaml
contains "$out" "listeners: 1"

# A real connection with its phases, its data checked.
expect 0 ndctl ping 127.0.0.2:7000 -c 4 --size 1000 -o json
json "$out" '.kind == "Ping" and .result == "connected" and .echo.count == 4 and .phases.connect_us > 0'
golden ping "$(jq '.phases |= map_values("<us>") | .total_us = "<us>" | .local |= sub(":[0-9]+$"; ":<port>")' <<< "$out")"
expect 0 ndctl ping 127.0.0.2:7000
contains "$out" "phases.connect_us:"
expect 1 ndctl ping 127.0.0.2:7999
contains "$err" "CONNECTION_REFUSED"
contains "$err" "nothing listens"
expect 1 ndctl ping 127.0.0.2:7999 -o json
json "$err" '.error.status == "CONNECTION_REFUSED"'

# Pause and resume.
expect 0 ndctl listener pause "$listener"
expect 0 ndctl listener list -o json
json "$out" '.items[0].state == "paused"'
expect 1 ndctl ping 127.0.0.2:7000
contains "$err" "CONNECTION_REFUSED"
expect 0 ndctl listener resume "$listener"
expect 0 ndctl ping 127.0.0.2:7000

# A connection that stays.
"$bin/ndperf" --op write --metric rate --size 64 --iterations 1000000000 > "$work/perf.out" 2>&1 &
until_true "a connection" count_is 2 connection list --filter state=Connected
expect 0 ndctl connection list --filter 'app=ndperf-*' --sort role -o json
golden connection_list "$(jq '.items[] |= (.local |= sub(":[0-9]+$"; ":<port>") | .peer |= sub(":[0-9]+$"; ":<port>"))' <<< "$out")"
expect 0 ndctl connection list --filter role=passive --filter 'app=ndperf-*' -o name
id=$out
until_true "traffic" bash -c "[ \"\$('$bin/ndctl' connection list --filter state=Connected --filter role=active -o custom=tx_bytes --no-headers)\" -gt 0 ]"
expect 0 ndctl connection show "$id" -o json
json "$out" '.kind == "Connection" and .role == "passive" and .transport == "local" and .adapter == "soft0"'
expect 0 ndctl connection show "$id"
contains "$out" "phases."
contains "$out" "traffic.stalls:"
expect 0 ndctl connection list -o wide
contains "$out" "READS-OUT"
contains "$out" "CONTAINER"
expect 0 ndctl connection list
[ "$(awk '{ if (length($0) > most) most = length($0) } END { print most }' <<< "$out")" -le 100 ] || fail "too wide: $out"
expect 0 ndctl connection list -o csv
contains "$out" "id,state,local,peer,owner.application,owner.pid"
expect 0 ndctl connection list --filter 'tx>0' --filter 'app=ndperf-client' -q
[ -n "$out" ] || fail "nothing has sent"
expect 0 ndctl connection list --watch=0.2 --count 3 -o jsonl
json "$(jq -s . <<< "$out")" 'length == 3 and all(.kind == "ConnectionList")
  and any(.[2].items[]; .role == "active" and .tx_bytes_per_second > 0)'
expect 0 ndctl connection list --watch=0.2 --count 2
contains "$out" "TX/s"
expect 0 ndctl qp list --filter 'app=ndperf-*' --sort app -o json
golden qp_list "$out"
json "$out" 'any(.items[]; .traffic.tx_bytes > 0 or .traffic.rx_bytes > 0)'
qp=$(jq -r .items[0].id <<< "$out")
expect 0 ndctl qp show "$qp" -o json
json "$out" ".kind == \"QueuePair\" and .id == \"$qp\" and .state == \"connected\""
expect 0 ndctl mr list --filter 'app=ndperf-*' -o json
json "$out" '.kind == "MemoryRegionList" and (.items | length) > 0 and all(.items[]; .size_bytes > 0)'
golden mr_show "$(jq '.items[0] | .size_bytes = "<bytes>" | .access = "<access>" | .owner.application = "<app>" | .buffer = "<bool>"' <<< "$out")"
expect 0 ndctl connection list --filter 'app=ndperf-*' --sort -tx_bytes -o jsonl
[ "$(jq -s length <<< "$out")" -eq 2 ] || fail "jsonl is not one object a line"
expect 0 ndctl status -o json
json "$out" '.counters.active_connection == 2 and .counters.connect >= 1 and .counters.accept >= 1'

expect 0 ndctl connection kill "$id" --dry-run
contains "$out" "would end connection $id of ndperf-"
count_is 2 connection list --filter 'app=ndperf-*' || fail "--dry-run ended something"
expect 0 ndctl connection kill "$id"
until_true "the end of the connection" count_is 0 connection list --filter 'app=ndperf-*'
expect 3 ndctl connection kill "$id"

# Kills the session with all its objects.
expect 0 ndctl session kill "$session"
until_true "the end of the session" count_is 0 listener list
expect 3 ndctl session kill "$session"
wait "$serve" && fail "ping --serve did not notice the end of its session" || true
expect 0 ndctl port list -o json
until_true "freed ports" count_is 0 port list --filter local=127.0.0.2:7000
done_well
