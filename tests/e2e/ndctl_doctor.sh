#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ndctl doctor with a healthy, a draining and a dead broker; ndctl bundle.
source "$(dirname "$0")/lib.sh"
start_broker

expect_doctor() { "$bin/ndctl" doctor "$@" > "$work/out" 2> "$work/err" < /dev/null || true; out=$(cat "$work/out"); }
expect_doctor
contains "$out" "PASS  broker"
contains "$out" "PASS  sockets"
expect_doctor -o json
json "$out" '.kind == "CheckList" and all(.items[]; .verdict | IN("PASS", "WARN", "FAIL"))'
json "$out" 'all(.items[]; .verdict == "PASS" or .remedy != "")'
json "$out" 'any(.items[]; .source == "broker") and any(.items[]; .source == "ndctl" and .name == "quotas")'
json "$out" '[.items[] | select(.source == "ndctl" and .name == "broker") | .verdict] == ["PASS"]'

expect 0 ndctl debug bundle -o "$work/b.tar.gz"
contains "$out" "b.tar.gz"
[ "$(stat -c %a "$work/b.tar.gz")" = 600 ] || fail "others may read the bundle"
mkdir "$work/b"
tar -xzf "$work/b.tar.gz" -C "$work/b" --strip-components=1
json "$(cat "$work/b/manifest.json")" '.kind == "DebugBundle" and (.files | length) > 15'
json "$(cat "$work/b/manifest.json")" '[.files[] | select(has("problem"))] == []'
for file in metrics.txt status.txt doctor.json config.json log.txt events.jsonl history.json list/connection.json kernel.txt; do
  [ -e "$work/b/$file" ] || fail "the bundle has no $file"
done
expect 1 ndctl debug bundle -o "$work/b.tar.gz"
contains "$err" "File exists"
"$bin/ndctl" debug bundle -o - | tar -tz > "$work/names"
grep -q manifest.json "$work/names" || fail "no archive on standard output"

# Left-over sockets of a broker that was killed.
kill -9 "$broker"
wait "$broker" 2> /dev/null || true
expect 1 ndctl doctor
contains "$out" "FAIL  broker"
contains "$out" "left over"
expect 0 ndctl debug bundle -o "$work/dead.tar.gz"
tar -xzf "$work/dead.tar.gz" -C "$work/b" --strip-components=1
json "$(cat "$work/b/manifest.json")" 'any(.files[]; .file == "log.txt" and (.problem | contains("no broker answers")))'

# A user without permission on the sockets.
if [ "$(id -u)" -eq 0 ] && command -v setpriv > /dev/null; then
  printf '[broker]\nclient-socket-mode = "0600"\n' > "$work/config.toml"
  start_broker
  chmod 755 "$work" "$NDBROKER_DIR"
  expect 1 setpriv --reuid 65534 --regid 65534 --clear-groups "$bin/ndctl" doctor --address "$NDBROKER_DIR"
  contains "$out" "FAIL  sockets"
  contains "$out" "client-socket-mode"
fi
done_well
