#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs the image of build.sh with crun: the broker, and two applications in network namespaces of their own that connect
# to each other by an address of the broker. try.sh OUT, the directory of build.sh. Needs root and crun; no registry, no daemon, no engine.
# All networks are namespaces of this script, and nothing is left when it ends.
set -euo pipefail
out=$(readlink -f "${1:?usage: try.sh OUT}")
[ -d "$out/rootfs" ] || { echo "try.sh: $out has no rootfs; run build.sh first" >&2; exit 2; }
[ "$(id -u)" -eq 0 ] || { echo "try.sh: making network namespaces needs root" >&2; exit 2; }
command -v crun > /dev/null || { echo "try.sh: install crun" >&2; exit 2; }
if [ -z "${ND_TRY_INSIDE:-}" ]; then ND_TRY_INSIDE=1 exec unshare --net --mount --propagation private "$0" "$@"; fi

# crun knows no hybrid hierarchy, and needs none here.
[ ! -d /sys/fs/cgroup/unified ] || mount --bind /sys/fs/cgroup/unified /sys/fs/cgroup
work=$(mktemp -d "${TMPDIR:-/tmp}/nd-container-XXXXXX")
crun=(crun --root "$work/state" --cgroup-manager=disabled)
finish() {
  for name in broker a b; do "${crun[@]}" delete --force "$name" 2> /dev/null || true; done
  jobs -p | xargs -r kill 2> /dev/null || true
  wait 2> /dev/null || true
  rm -rf --one-file-system "$work"
}
trap finish EXIT
say() { echo "# $*"; }

ip link set lo up
ip link add ndbr type bridge
ip addr add 10.99.0.1/24 dev ndbr
ip link set ndbr up
mkdir -p "$work/run" "$work/etc"
printf '[broker]\ndirectory = "/run/ndbroker"\nforeign-network-namespaces = "allow"\n[history]\nenabled = false\n' \
  > "$work/etc/ndbrokerd.toml"

# bundle NAME NETWORK-NAMESPACE MOUNTS COMMAND...: an OCI bundle without capabilities and with a read-only root. An
# empty namespace: that of this script. MOUNTS is a JSON list.
bundle() {
  local name=$1 net=$2 mounts=$3
  shift 3
  mkdir -p "$work/$name"
  (cd "$work/$name" && rm -f config.json && "${crun[@]}" spec)
  jq --argjson command "$(printf '%s\n' "$@" | jq -Rnc '[inputs]')" --arg root "$out/rootfs" --arg net "$net" --argjson mounts "$mounts" '
      .root = {path: $root, readonly: true} | .process.terminal = false | .process.args = $command
      | .process.capabilities = {} | .process.env += ["NDBROKER_DIR=/run/ndbroker"] | .hostname = ""
      | .linux.namespaces = [{type: "mount"}]
        + (if $net == "" then [] else [{type: "network", path: $net}, {type: "pid"}, {type: "ipc"}] end)
      | .linux.resources = {} | del(.linux.cgroupsPath) | .mounts |= map(select(.type != "cgroup" and .destination != "/sys"))
      | .mounts += $mounts' "$work/$name/config.json" > "$work/$name/new.json"
  mv "$work/$name/new.json" "$work/$name/config.json"
}
mount_of() { jq -nc --arg s "$1" --arg d "$2" --arg o "$3" '[{type: "bind", source: $s, destination: $d, options: ["bind", $o]}]'; }
run() { "${crun[@]}" run --bundle "$work/$1" "$1"; }
pod() {
  unshare --net sleep 300 &
  local holder=$!
  until [ "$(readlink "/proc/$holder/ns/net")" != "$(readlink /proc/self/ns/net)" ]; do sleep 0.05; done
  ip link add "nd$1" type veth peer name eth0 netns "$holder"
  ip link set "nd$1" up master ndbr
  nsenter -t "$holder" -n sh -c "ip link set lo up && ip addr add $2/24 dev eth0 && ip link set eth0 up"
  net=/proc/$holder/ns/net
}
waiting() {
  for _ in $(seq 200); do
    grep -q "$2" "$work/$1.log" && return
    sleep 0.05
  done
  echo "try.sh: $1 did not say '$2':" >&2
  cat "$work/$1.log" >&2
  exit 1
}

say "the broker, in the network and pid namespaces of the node, without capabilities"
bundle broker "" "$(jq -c --argjson more "$(mount_of "$work/etc" /etc/ndbroker ro)" '. + $more' <<< "$(mount_of "$work/run" /run/ndbroker rw)")" \
  /usr/sbin/ndbrokerd --config /etc/ndbroker/ndbrokerd.toml --adapter-address 10.99.0.1
run broker > "$work/broker.log" 2>&1 &
waiting broker '^READY '
cat "$work/broker.log"

say "two pods see the directory 'client' of the broker and nothing else of it"
client=$(mount_of "$work/run/client" /run/ndbroker ro)
pod a 10.99.0.2
bundle a "$net" "$client" /usr/bin/example_ping_pong server 10.99.0.1:7000
run a > "$work/a.log" 2>&1 &
server=$!
waiting a '^waiting at '
cat "$work/a.log"
say "ndctl on the node"
NDBROKER_DIR=$work/run "$out/rootfs/usr/bin/ndctl" session list
NDBROKER_DIR=$work/run "$out/rootfs/usr/bin/ndctl" adapter list
pod b 10.99.0.3
bundle b "$net" "$client" /usr/bin/example_ping_pong client 10.99.0.1:7000
run b
wait "$server"
say "the message went from pod b to pod a and back, a thousand times"
