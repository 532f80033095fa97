#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The cases of foreign_test.cc and disconnect_test.cc, each as a process of its own on a broker, with 'ndctl run' as it is and with --no-share-memory,
# and those of share_memory_test.cc as it is and with --share-memory. The process that ends a case must end by itself: a crash in a destructor is a failure.
# usage: foreign_test.sh BUILD_DIR [SUITE.CASE...]
set -u
if [ -z "${NDBROKER_VERBS_ISOLATED:-}" ]; then
  for how in --net '--user --map-root-user --net'; do
    unshare $how true 2> /dev/null && NDBROKER_VERBS_ISOLATED=1 exec unshare $how "$(readlink -f "$0")" "$@"
  done
else
  ip link set lo up
fi
build=$1 ndctl=$1/bin/ndctl test=$1/bin/verbs_foreign_test
shift
work=$(mktemp -d) failed=0
trap 'kill "$broker" 2> /dev/null; wait; rm -rf "$work"' EXIT
export NDBROKER_DIR=$work/broker
mkdir "$NDBROKER_DIR"
"$build/bin/ndbrokerd" --dir "$NDBROKER_DIR" --adapter-address 127.0.0.1 > "$work/broker.log" 2>&1 & broker=$!
for _ in $(seq 100); do grep -qs ^READY "$work/broker.log" && break; sleep 0.1; done

cases() { "$test" --gtest_list_tests --gtest_filter="$1.*" | sed -n "s/^  /$1./p"; }
check() {  # CASE OPTION...
  local name=$1 status
  shift
  timeout "${NDBROKER_VERBS_PATIENCE:-60}" "$ndctl" run "$@" -- "$test" --gtest_filter="$name" > "$work/out" 2>&1
  status=$?
  if [ $status = 0 ] && grep -q '1 test from 1 test suite ran' "$work/out"; then echo "ok    $name $*"; return; fi
  echo "FAIL  $name $*: status $status"; sed 's/^/      /' "$work/out" | tail -25; failed=1
}
for name in ${*:-$(cases Foreign) $(cases ShareMemory)}; do
  check "$name"
  case $name in Foreign.*) check "$name" --no-share-memory;; *) check "$name" --share-memory;; esac
done
[ $# = 0 ] || exit $failed
NDBROKER_DIR=$work/none timeout "${NDBROKER_VERBS_PATIENCE:-60}" "$ndctl" run -- "$test" --gtest_filter='WithoutBroker.*' > "$work/out" 2> "$work/err"
status=$?
if [ $status != 0 ] || [ "$(grep -c '^ndbroker: ' "$work/err")" != 1 ]; then
  echo "FAIL  without a broker: status $status"; cat "$work/out" "$work/err"; failed=1
fi
exit $failed
