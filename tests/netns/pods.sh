#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Pods with addresses of their own (foreign-network-namespaces = "serve"): four network namespaces beside that of a
# broker without any privilege. Two of them have the same address.
if [ -z "${ND_PODS_INSIDE:-}" ]; then
  # An ordinary user makes other namespaces only inside a user namespace of his own.
  enter=()
  [ "$(id -u)" -eq 0 ] || enter=(--user --map-root-user)
  unshare "${enter[@]}" --net --mount ip link add nd0 type veth peer name nd1 2> /dev/null || {
    echo "SKIPPED: no right to make namespaces and interfaces"
    exit 77
  }
  ND_PODS_INSIDE=1 exec unshare "${enter[@]}" --net --mount --propagation private "$0" "$@"
fi
source "$(dirname "$0")/../e2e/lib.sh"
here=$(dirname "$(readlink -f "$0")")

# pod: starts a network namespace, which ends with this script.
pod() {
  unshare --net --mount --propagation private sleep 300 &
  eval "$1=$!"
  until_true "the namespace of $1" eval '[ "$(readlink "/proc/'$!'/ns/net")" != "$(readlink /proc/self/ns/net)" ]'
  until_true "the mounts of $1" eval '[ "$(readlink "/proc/'$!'/ns/mnt")" != "$(readlink /proc/self/ns/mnt)" ]'
}
in_pod() {
  local holder=$1
  shift
  nsenter -t "$holder" --net --mount -- "$@"
}
ip link set lo up
ip link add ndbr type bridge
ip addr add 10.88.0.1/24 dev ndbr
ip addr add fd88::1/64 dev ndbr nodad
ip link set ndbr up
for name in a b twin alone; do
  pod "$name"
  holder=${!name}
  in_pod "$holder" ip link set lo up
  mkdir -p "$work/$name"
done
join() {
  ip link add "nd$1" type veth peer name eth0 netns "${!1}"
  ip link set "nd$1" up master ndbr
  in_pod "${!1}" ip addr add "10.88.0.$2/24" dev eth0
  in_pod "${!1}" ip addr add "fd88::$2/64" dev eth0 nodad
  in_pod "${!1}" ip link set eth0 up
}
join a 2
join b 3
in_pod "$twin" ip addr add 10.88.0.3/32 dev lo

# Without a privilege: another user, or root of a user namespace without capabilities.
chmod 755 "$work"
mkdir "$NDBROKER_DIR"
bare=(setpriv --inh-caps=-all --bounding-set=-all)
if setpriv --reuid 65534 --clear-groups true 2> /dev/null; then
  chown 65534:65534 "$NDBROKER_DIR"
  bare=(setpriv --reuid 65534 --regid 65534 --clear-groups --inh-caps=-all --bounding-set=-all)
fi
port=$(free_port)
cat > "$work/config.toml" << END
[broker]
foreign-network-namespaces = "serve"
admin-namespaces = "any"
[metrics]
enabled = true
[history]
enabled = false
[[adapter]]
name = "soft0"
tcp-port = $port
END
serve() {
  : > "$work/broker.out"
  "${bare[@]}" "$bin/ndbrokerd" --dir "$NDBROKER_DIR" --config "$work/config.toml" > "$work/broker.out" 2>> "$work/broker.log" &
  broker=$!
  until_true "the broker's start" broker_ready
}
serve
[ "$(sed -n 's/^CapEff:\t*//p' "/proc/$broker/status")" = 0000000000000000 ] || fail "the broker has capabilities"

# A pod has the client directory alone.
for name in a b twin alone; do
  in_pod "${!name}" mount --bind "$NDBROKER_DIR/client" "$work/$name"
done
# within POD COMMAND...; run_in does the same, or runs it beside the broker when the pod is "host". start_in replaces
# the shell, so that $! is the command.
within() {
  local name=$1
  shift
  in_pod "${!name}" env NDBROKER_DIR="$work/$name" "$@"
}
start_in() {
  local name=$1
  shift
  [ "$name" != host ] || exec "$@"
  exec nsenter -t "${!name}" --net --mount -- env NDBROKER_DIR="$work/$name" "$@"
}
out_of() { cat "$work/$1.out"; }
waiting() { grep -q '^waiting at' "$work/$1.out"; }

# exchange SERVER ADDRESS CLIENT [PORT]: a thousand messages there and back, each checked. A name of a pod or "host".
exchange() {
  local server=$1 address=$2 client=$3
  : > "$work/server.out"
  start_in "$server" "$bin/example_ping_pong" server "$address" > "$work/server.out" 2>&1 &
  local pid=$!
  until_true "the server's start: $(out_of server)" waiting server
  expect 0 run_in "$client" "$bin/example_ping_pong" client "$address"
  wait "$pid" || fail "the server in $server: $(out_of server)"
}
run_in() {
  local where=$1
  shift
  if [ "$where" = host ]; then "$@"; else within "$where" "$@"; fi
}
exchange b 10.88.0.3:7000 a
exchange a 10.88.0.2:7000 b
exchange a 10.88.0.2:7000 host
exchange host 10.88.0.1:7000 b
exchange b '[fd88::3]:7000' a
exchange a 10.88.0.2:7000 a # Within a pod: shared memory.
exchange twin 10.88.0.3:7000 twin

# Every pod, and the host, has every port for itself. A listener of one pod cannot be reached by another pod's
# own address.
servers=()
for name in host a b twin; do
  case $name in host) own=10.88.0.1 ;; a) own=10.88.0.2 ;; *) own=10.88.0.3 ;; esac
  start_in "$name" "$bin/ndctl" ping --serve "$own:445" > "$work/$name.out" 2>&1 &
  servers+=($!)
done
at_445() { [ "$(ndctl listener list -o json | jq '[.items[] | select(.local | endswith(":445"))] | length')" = 4 ]; }
until_true "four listeners at port 445" at_445
listeners=$(ndctl listener list -o json)
json "$listeners" '[.items[] | select(.local == "10.88.0.3:445") | .adapter] | unique | length == 2'
json "$listeners" '[.items[] | select(.local == "10.88.0.1:445") | .adapter] == ["soft0"]'
json "$(ndctl adapter list -o json)" '[.items[] | select(.name | startswith("soft0@"))] | length == 3'
expect 0 within a "$bin/ndctl" ping 10.88.0.3:445
expect 0 within b "$bin/ndctl" ping 10.88.0.2:445
expect 0 within twin "$bin/ndctl" ping 10.88.0.3:445
expect 1 within twin "$bin/ndctl" ping 10.88.0.2:445 # It has no way to another pod.
kill "${servers[@]}" 2> /dev/null || true
wait "${servers[@]}" 2> /dev/null || true

# The broker refuses sockets that are not fresh or not of the session's namespace, and keeps serving.
expect 0 within a env ND_HOST_ADDRESS=10.88.0.1 python3 "$here/given.py" "$work/a/lane.sock" 10.88.0.2 7999 "/proc/$b/ns/net"
exchange b 10.88.0.3:7000 a

# A session by gRPC cannot give sockets: it has no addresses, and the error says why.
# AddressSanitizer objects to libraries before its own.
expect 1 within a env ASAN_OPTIONS="${ASAN_OPTIONS:-}:verify_asan_link_order=0" LD_PRELOAD="$bin/../lib/libndbroker_grpc.so" \
  NDBROKER_SESSION=grpc "$bin/example_ping_pong" client 10.88.0.3:7000
contains "$err" "A session by gRPC cannot give the broker sockets"

# A client that ends the listening socket of its namespace harms that namespace alone.
expect 0 within alone python3 "$here/given.py" "$work/alone/lane.sock" break
exchange b 10.88.0.3:7000 a

# The broker limits the sockets that wait for an operation, and the namespaces that one user may have served.
expect 0 within a python3 "$here/given.py" "$work/a/lane.sock" early
if [ "$(id -u)" -eq 0 ] && setpriv --reuid 4242 --clear-groups true 2> /dev/null; then
  expect 0 within alone python3 "$here/given.py" "$work/alone/lane.sock" many
  exchange b 10.88.0.3:7000 a
else
  echo "SKIPPED: the share of a user, for want of a second user"
fi

# A namespace is given up after its last session.
networks() { ndctl adapter list -o json | jq '[.items[] | select(.name | contains("@"))] | length'; }
none_left() { [ "$(networks)" = 0 ]; }
until_true "the end of the served namespaces" none_left
kill "$broker"
wait "$broker" || fail "the broker did not end well"
done_well
