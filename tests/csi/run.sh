#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The CSI driver with a kubelet of ours (kubelet.py) and a real broker. All mounts are in a mount namespace of the test.
if [ -z "${ND_CSI_INSIDE:-}" ]; then
  /usr/bin/python3 -c "import grpc" 2> /dev/null || {
    echo "SKIPPED: python3-grpcio is not installed"
    exit 77
  }
  # An ordinary user may mount only inside a user namespace of his own.
  enter=()
  [ "$(id -u)" -eq 0 ] || enter=(--user --map-root-user)
  unshare "${enter[@]}" --mount true 2> /dev/null || {
    echo "SKIPPED: no right to make namespaces"
    exit 77
  }
  ND_CSI_INSIDE=1 exec unshare "${enter[@]}" --mount --propagation private "$0" "$@"
fi
source "$(dirname "$0")/../e2e/lib.sh"
here=$(dirname "$(readlink -f "$0")")
unmount_all() { findmnt -rno TARGET | grep "^$work/" | xargs -r -n1 umount -l || true; }
trap 'status=$?; unmount_all; (exit $status); cleanup' EXIT

start_broker
kubelet=$work/kubelet
uid=0a1b2c3d-0000-1111-2222-333344445555
other=ffffffff-0000-1111-2222-333344445555
mkdir -p "$kubelet/plugins/csi.ndbroker.dev" "$kubelet/plugins_registry"
for pod in "$uid" "$other"; do mkdir -p "$kubelet/pods/$pod/volumes/kubernetes.io~csi/nd"; done
target() { echo "$kubelet/pods/$1/volumes/kubernetes.io~csi/nd/mount"; }
registration=$kubelet/plugins_registry/csi.ndbroker.dev-reg.sock

start_driver() {
  : > "$work/csi.out"
  "$bin/ndbroker-csi" --broker-dir "$NDBROKER_DIR" --kubelet-dir "$kubelet" --node worker-7 \
    > "$work/csi.out" 2>> "$work/csi.log" &
  driver=$!
  until_true "the driver's start" driver_ready
}
driver_ready() {
  kill -0 "$driver" 2> /dev/null || fail "ndbroker-csi ended: $(cat "$work/csi.log")"
  grep -q '^READY ' "$work/csi.out"
}
stop_driver() {
  kill "${1:--TERM}" "$driver"
  wait "$driver" 2> /dev/null || true
}
# A container sees the volume under a path of its own.
mkdir "$work/pod"
use_volume() {
  expect 0 unshare --mount bash -ec 'mount --bind "$1" "$2/pod"
    NDBROKER_DIR=$2/pod "$3/ndperf" --transport local --address 127.0.0.2 --op send --metric lat --iterations 100' \
    container "$1" "$work" "$bin"
}
call() { /usr/bin/python3 "$here/kubelet.py" "$@"; }
context() {
  echo "context=pod.name:$1" "context=pod.namespace:$2" "context=pod.uid:$3" "context=serviceAccount.name:robot" \
    "context=ephemeral:true"
}
# publish CODE VOLUME TARGET NAME NAMESPACE UID [FIELD...]
publish() {
  local code=$1 volume=$2 path=$3
  # shellcheck disable=SC2046
  expect "$code" call "$endpoint" publish "volume=$volume" "target=$path" "${capability:-capability=mount}" \
    "readonly=${readonly:-true}" $(context "$4" "$5" "$6")
}

# Registration, as the kubelet's plugin watcher does it.
start_driver
expect 0 call "$registration" info
contains "$out" "type CSIPlugin"
contains "$out" "name csi.ndbroker.dev"
contains "$out" "version 1.0.0"
endpoint=$(sed -n 's/^endpoint //p' <<< "$out")
expect 0 call "$registration" registered yes=true
expect 0 call "$registration" registered yes=false "error=no such driver"
until_true "the log of a failed registration" grep -q "did not register the driver: no such driver" "$work/csi.log"
expect 0 call "$endpoint" plugin
contains "$out" "name csi.ndbroker.dev"
contains "$out" "vendor_version "
expect 0 call "$endpoint" node
contains "$out" "node_id worker-7"
for empty in probe capabilities node-capabilities; do
  expect 0 call "$endpoint" "$empty"
  [ -z "$out" ] || fail "$empty answered $out"
done
[ "$(stat -c %a "$endpoint")" = 600 ] || fail "the driver's socket is open to others: $(stat -c %a "$endpoint")"

# Publish: a pod sees two sockets, cannot write, and the broker knows its name.
at=$(target "$uid")
publish 0 csi-1 "$at" web-1 shop "$uid"
[ "$(ls "$at")" = "$(printf 'broker.sock\nlane.sock')" ] || fail "the volume contains $(ls "$at")"
! touch "$at/file" 2> /dev/null || fail "the volume can be written"
findmnt -no OPTIONS "$at" > "$work/options"
for option in ro nosuid nodev noexec; do contains "$(cat "$work/options")" "$option"; done
grep -qx "name web-1" "$NDBROKER_DIR/pods/$uid~csi-1" || fail "the pod is not registered"
grep -qx "service-account robot" "$NDBROKER_DIR/pods/$uid~csi-1" || fail "the service account is not registered"
use_volume "$at"
publish 0 csi-1 "$at" web-1 shop "$uid" # The kubelet repeats calls whose answers it has lost.
[ "$(findmnt -no TARGET "$at" | wc -l)" = 1 ] || fail "a repeated call mounted again"

# Refused requests, which leave nothing behind.
publish 1 csi-1 "$(target "$other")" vault-0 bank "$other"
contains "$err" "ALREADY_EXISTS: volume csi-1 belongs to pod shop/web-1"
refused() {
  contains "$err" "INVALID_ARGUMENT"
  contains "$err" "$1"
  [ ! -e "$(target "$other")" ] || fail "a refused call left $(target "$other")"
  [ ! -e "$NDBROKER_DIR/pods/$other~csi-2" ] || fail "a refused call left a registration"
}
publish 1 csi-2 "$at" vault-0 bank "$other"
refused "target_path must be $kubelet/pods/$other/"
publish 1 csi-2 /etc vault-0 bank "$other"
refused "target_path must be"
publish 1 ../csi-2 "$(target "$other")" vault-0 bank "$other"
refused "volume_id"
publish 1 csi-2 "$(target "$other")" vault-0 'Bank' "$other"
refused "namespace"
readonly=false publish 1 csi-2 "$(target "$other")" vault-0 bank "$other"
refused "readOnly: true"
capability=capability=block publish 1 csi-2 "$(target "$other")" vault-0 bank "$other"
refused "must be 'mount'"
expect 1 call "$endpoint" publish volume=csi-2 "target=$(target "$other")" capability=mount readonly=true
refused "podInfoOnMount"
ln -s /etc "$(target "$other")"
publish 1 csi-2 "$(target "$other")" vault-0 bank "$other"
contains "$err" "is not a directory"
rm "$(target "$other")"
chmod 0777 "$NDBROKER_DIR/pods"
publish 1 csi-2 "$(target "$other")" vault-0 bank "$other"
contains "$err" "PERMISSION_DENIED"
chmod 0755 "$NDBROKER_DIR/pods"
refused_again() { [ ! -e "$(target "$other")" ] && [ ! -e "$NDBROKER_DIR/pods/$other~csi-2" ]; }
refused_again || fail "a refused call left something"

# The driver is killed and comes back: the volume stays, and is unpublished by the new one.
stop_driver -KILL
use_volume "$at"
start_driver
expect 0 call "$registration" info
publish 0 csi-2 "$(target "$other")" vault-0 bank "$other"
expect 1 call "$endpoint" unpublish volume=csi-1 "target=$(target "$other")"
contains "$err" "INVALID_ARGUMENT"
[ -e "$(target "$other")/lane.sock" ] || fail "a volume was unmounted under the name of another"

# The broker restarts: the sockets in the volume are those of the new broker.
kill "$broker"
wait "$broker" || fail "the broker did not end well"
start_broker
use_volume "$at"

expect 0 call "$endpoint" unpublish volume=csi-1 "target=$at"
expect 0 call "$endpoint" unpublish volume=csi-1 "target=$at"
expect 0 call "$endpoint" unpublish volume=csi-2 "target=$(target "$other")"
[ ! -e "$at" ] || fail "unpublish left $at"
[ -z "$(ls -A "$NDBROKER_DIR/pods")" ] || fail "unpublish left $(ls -A "$NDBROKER_DIR/pods")"

# Without a broker the kubelet is told to try again.
kill "$broker"
wait "$broker" || true
rm -rf "$NDBROKER_DIR"
publish 1 csi-3 "$at" web-1 shop "$uid"
contains "$err" "UNAVAILABLE"
contains "$err" "is the broker running?"
stop_driver
done_well
