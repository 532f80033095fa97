#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The cases of features_test.cc on a broker.
# usage: features_test.sh BUILD_DIR
# In a network namespace of its own where the system has them: all brokers of a namespace have one TCP port.
set -u
if [ -z "${NDBROKER_VERBS_ISOLATED:-}" ]; then
  for how in --net '--user --map-root-user --net'; do
    unshare $how true 2> /dev/null && NDBROKER_VERBS_ISOLATED=1 exec unshare $how "$(readlink -f "$0")" "$1"
  done
else
  ip link set lo up
fi
build=$1
work=$(mktemp -d)
export NDBROKER_DIR=$work/broker XDG_RUNTIME_DIR=$work
mkdir "$NDBROKER_DIR"
# In the place of the folder for files about devices is one that others can write to. The next name is used.
mkdir -m 777 "$work/ndbroker-sysfs-$(id -u)"
"$build/bin/ndbrokerd" --dir "$NDBROKER_DIR" --adapter-address 127.0.0.1 > "$work/log" 2>&1 & broker=$!
trap 'kill $broker; wait; rm -rf "$work"' EXIT
for _ in $(seq 100); do grep -qs ^READY "$work/log" && break; sleep 0.1; done
grep -q ^READY "$work/log" || { echo "FAIL: the broker did not start"; cat "$work/log"; exit 1; }
NDCTL=$build/bin/ndctl timeout "${NDBROKER_VERBS_PATIENCE:-120}" "$build/bin/ndctl" run -- "$build/bin/verbs_features_test" || exit 1
[ -d "$work/ndbroker-sysfs-$(id -u).1/" ] || { echo "FAIL: a folder that others can write to was used"; exit 1; }
