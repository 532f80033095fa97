#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The broker's sockets seen from other pid, network and user namespaces: root there administers nothing here,
# and an application there uses the client directory alone.
source "$(dirname "$0")/../e2e/lib.sh"

# An ordinary user makes other namespaces only inside a user namespace of his own.
enter=()
[ "$(id -u)" -eq 0 ] || enter=(--user --map-root-user)
unshare "${enter[@]}" --net --pid --fork --mount true 2> /dev/null || {
  echo "SKIPPED: no right to make namespaces"
  exit 77
}

draining() { ndctl status -o json | jq -e '.state == "draining"' > /dev/null; }
metric() { curl -sf --unix-socket "$NDBROKER_DIR/metrics.sock" http://-/metrics | sed -n "s/^$1 //p"; }
refused() { metric "ndbroker_clients_refused_total{socket=\"$1\",reason=\"foreign namespace\"}"; }
refused_are() { [ "$(refused "$1")" = "$2" ]; }  # Not at once: a metrics page is kept for 100 ms.

start_broker
[ "$(refused admin.sock)" = 0 ] || fail "somebody was refused before anybody came"

# Every kind of namespace alone, and all together.
kinds=("--user --map-root-user" "--user --map-root-user --net --pid --fork --mount-proc")
[ "$(id -u)" -ne 0 ] || kinds+=("--net" "--pid --fork" "--net --pid --fork --mount-proc")
calls=0
for kind in "${kinds[@]}"; do
  # shellcheck disable=SC2086
  expect 5 unshare $kind "$bin/ndctl" drain
  contains "$err" "not in the broker's pid, network and user namespaces"
  contains "$err" "admin-namespaces"
  calls=$((calls + 1))
  ! draining || fail "a process with 'unshare $kind' drained the broker"
done
until_true "the count of $calls refusals at admin.sock" refused_are admin.sock "$calls"
contains "$(cat "$work/broker.log")" "connection refused: admin.sock: uid $(id -u) (pid "
expect 0 unshare "${enter[@]}" --net curl -s --unix-socket "$NDBROKER_DIR/metrics.sock" -w '%{http_code}' http://-/metrics
contains "$out" 403
contains "$out" "admin-namespaces"
until_true "the count of the refusal at metrics.sock" refused_are metrics.sock 1

# A crowd of silent connections does not keep an administrator out.
unshare "${enter[@]}" --net python3 - "$NDBROKER_DIR/admin.sock" << 'END' &
import socket, sys, time
held = []
for _ in range(200):
    s = socket.socket(socket.AF_UNIX)
    s.connect(sys.argv[1])
    held.append(s)
time.sleep(60)
END
until_true "a crowd at the admin socket" refused_are admin.sock $((calls + 200))
expect 0 ndctl status

# An application in a network namespace of its own reaches the broker and sees no address of this host.
expect 1 unshare "${enter[@]}" --net "$bin/ndctl" ping 127.0.0.2:7000
contains "$err" "no way to 127.0.0.2:7000"
inode=$(stat -c %i "$NDBROKER_DIR/client")
kill "$broker"
wait "$broker" || fail "the broker did not end well"

# With "allow", it uses them, although only the client directory of the broker is visible to it.
printf '[broker]\nforeign-network-namespaces = "allow"\n' > "$work/config.toml"
start_broker
[ "$inode" = "$(stat -c %i "$NDBROKER_DIR/client")" ] || fail "a restart stranded who has mounted the client directory"
mkdir "$work/mounted" "$work/empty"
expect 0 unshare "${enter[@]}" --net --pid --fork --mount bash -ec '
  mount --bind "$NDBROKER_DIR/client" "$1/mounted"
  mount --bind "$1/empty" "$NDBROKER_DIR"
  [ "$(ls "$1/mounted")" = "$(printf "broker.sock\nlane.sock")" ]
  NDBROKER_DIR=$1/mounted "$2/ndperf" --transport local --address 127.0.0.2 --op send --metric lat --iterations 100' \
  container "$work" "$bin"
kill "$broker"
wait "$broker" || fail "the broker did not end well"

# With "any", the broker obeys administrators of every namespace.
printf '[broker]\nadmin-namespaces = "any"\n' > "$work/config.toml"
start_broker
expect 0 unshare "${enter[@]}" --net --pid --fork "$bin/ndctl" drain
draining || fail "the broker was told to obey and did not"
done_well
