#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ndctl --host through a real gateway over mutual TLS: the rights of each role, and every kind of refusal.
source "$(dirname "$0")/lib.sh"
start_broker
expect 0 ndctl tls init "$work/set" --server 127.0.0.1 --client root --client eyes --client stranger
contains "$out" "ndbroker-gateway --tls"
expect 1 ndctl tls init "$work/set"
expect 2 ndctl tls init "$work/other" --client ../x
for who in root eyes stranger; do
  mkdir "$work/$who"
  cp "$work/set/ca.pem" "$work/set/$who.pem" "$work/set/$who-key.pem" "$work/$who"
done

expect 2 "$bin/ndbroker-gateway" --tls "$work/set" --listen 127.0.0.1:0
contains "$err" "--admin"
expect 1 "$bin/ndbroker-gateway" --tls "$work/none" --listen 127.0.0.1:0 --admin root
contains "$err" "tls init"

"$bin/ndbroker-gateway" --tls "$work/set" --listen 127.0.0.1:0 --admin root --view eyes > "$work/gateway.out" \
  2> "$work/gateway.log" &
until_true "the gateway's start" grep -q '^READY ' "$work/gateway.out"
host=$(sed -n 's/^READY //p' "$work/gateway.out")
unset NDBROKER_DIR

expect 0 ndctl --host "$host" --tls "$work/root" status -o json
json "$out" ".pid == $broker"
expect 0 ndctl --host "$host" --tls "$work/eyes" adapter list -o json
json "$out" '.items[0].name == "soft0"'
expect 0 env NDCTL_HOST="$host" NDCTL_TLS="$work/eyes" "$bin/ndctl" version -o json
# A viewer may not change anything; an unknown client may not see anything.
expect 5 ndctl --host "$host" --tls "$work/eyes" adapter disable soft0 --yes
contains "$err" "'eyes'"
expect 5 ndctl --host "$host" --tls "$work/stranger" status
expect 0 ndctl --host "$host" --tls "$work/root" adapter disable soft0 --yes
expect 0 ndctl --host "$host" --tls "$work/root" adapter show soft0 -o json
json "$out" '.state == "disabled"'
expect 0 ndctl --host "$host" --tls "$work/root" adapter enable soft0

# Certificates of another authority, a directory with none, a name that the certificate does not have.
expect 0 ndctl tls init "$work/foreign" --server 127.0.0.1 --client root
mkdir "$work/mixed"
cp "$work/set/ca.pem" "$work/foreign/root.pem" "$work/foreign/root-key.pem" "$work/mixed"
got=0
ndctl --host "$host" --tls "$work/mixed" status > "$work/out" 2> "$work/err" || got=$?
[ "$got" -eq 5 ] || [ "$got" -eq 4 ] || fail "a foreign certificate: exit $got, $(cat "$work/err")"
checks=$((checks + 1))
expect 2 ndctl --host "$host" --tls "$work/nowhere" status
expect 5 ndctl --host "localhost:${host##*:}" --tls "$work/root" status
contains "$err" "not for 'localhost'"
expect 2 ndctl --host "$host" --address "$work/broker" status
expect 2 ndctl --host "a:b" --tls "$work/root" status
expect 4 ndctl --host "127.0.0.1:1" --tls "$work/root" status

# The broker restarts behind the gateway.
kill "$broker"
wait "$broker" || true
expect 4 ndctl --host "$host" --tls "$work/root" status
export NDBROKER_DIR=$work/broker
start_broker
unset NDBROKER_DIR
until_true "the broker again" ndctl --host "$host" --tls "$work/root" status -o json
done_well
