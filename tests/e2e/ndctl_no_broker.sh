#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Every command without a broker, or with a broker of another user: exit code, cause, remedy.
source "$(dirname "$0")/lib.sh"

for command in status "adapter list" "listener list" "connection list" "endpoint list" "port list" "session list" \
  events ping "config reload" "config show" "config diff" "connection kill c-1" "connection kill c-1 --dry-run" \
  "qp list" "mr list" "policy show" "policy check limits" "history" "stats" "drain" "undrain" "port reserve 10.0.0.1:5" \
  "port release 10.0.0.1:5" "wait connection --for gone" "events --since 1h" "status --watch" "connection list --watch" \
  "connection kill c-1" "session kill s-1" "listener pause l-1" "adapter disable soft0" \
  "adapter show soft0" "connection show c-1" "testing skip-time 5"; do
  # shellcheck disable=SC2086
  expect 4 ndctl $command
  contains "$err" "$NDBROKER_DIR"
  contains "$err" "start ndbrokerd"
  [ -z "$out" ] || fail "$command wrote to stdout: $out"
  # shellcheck disable=SC2086
  expect 4 ndctl $command -o json
  json "$err" '.apiVersion == "ndbroker/v1" and .kind == "Error" and .error.exit_code == 4 and .error.code == "UNREACHABLE"'
done
expect 4 ndctl ping 127.0.0.2:7000
expect 4 ndctl trace 127.0.0.2:7000
echo "[core]" > "$work/c.toml"
expect 4 ndctl config check "$work/c.toml"
contains "$err" "ndbrokerd --check-config $work/c.toml"

# doctor and explain work without a broker; doctor says why there is none.
expect 1 ndctl doctor
contains "$out" "FAIL  broker"
contains "$out" "start ndbrokerd"
[ -z "$err" ] || fail "doctor wrote to stderr: $err"
expect 1 ndctl doctor -o json
json "$out" '.kind == "CheckList" and (.items | any(.name == "directory" and .verdict == "FAIL" and .remedy != ""))'
expect 0 ndctl explain CONNECTION_REFUSED
contains "$out" "0xC0000236"
expect 3 ndctl explain conection.tx
contains "$err" "did you mean"
expect 0 ndctl version -o json
json "$out" '.kind == "Version" and .broker == null'

expect 2 ndctl
expect 2 ndctl conection list
contains "$err" "did you mean 'connection'?"
expect 2 ndctl listener list --filter stat=x
contains "$err" "did you mean 'STATE'?"
expect 2 ndctl listener list --filter stat=x -o json
json "$err" '.error.exit_code == 2 and (.error.hint | contains("STATE"))'
expect 2 ndctl status -o yml
contains "$err" "did you mean 'yaml'?"
expect 2 ndctl status --timeout -1
expect 2 ndctl status --address "$(printf 'x%.0s' $(seq 300))"
expect 0 ndctl --help
for noun in adapter listener connection endpoint port session qp mr; do expect 0 ndctl $noun list --help; done

# A socket without permission.
if [ "$(id -u)" -eq 0 ] && command -v setpriv > /dev/null; then
  start_broker
  chmod 755 "$work" "$NDBROKER_DIR"
  expect 5 setpriv --reuid 65534 --regid 65534 --clear-groups "$bin/ndctl" status --address "$NDBROKER_DIR"
  contains "$err" "no permission"
fi
done_well
