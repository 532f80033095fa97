#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs each example as its README says: a server process and a client process, which both end with 0.
source "$(dirname "$0")/lib.sh"
start_broker

# pair PROGRAM ADDRESS [COUNT]
pair() {
  local program=$1 address=$2 server status=0
  "$bin/$program" server "$address" "${@:3}" > "$work/server.out" 2>&1 &
  server=$!
  until_true "$program's listener" count_is 1 listener list --filter "local=$address" --filter state=listening
  expect 0 timeout 60 "$bin/$program" client "$address" "${@:3}"
  echo "$program client: $out"
  timeout 60 tail --pid="$server" -f /dev/null || fail "$program's server does not end"
  wait "$server" || status=$?
  [ "$status" -eq 0 ] || fail "$program's server ended with $status: $(cat "$work/server.out")"
  checks=$((checks + 1))
}

pair example_ping_pong 127.0.0.2:7471
pair example_remote_memory 127.0.0.2:7472
pair example_echo_server 127.0.0.2:7473 20
pair example_shared_endpoint 127.0.0.2:7474 5

# No listener: an error, not a hang.
expect 1 timeout 60 "$bin/example_ping_pong" client 127.0.0.2:7999
contains "$err" "CONNECTION_REFUSED"

until_true "everything given back" count_is 0 port list
done_well
