#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# run.sh [BUILD]: the verbs provider on Debian's own kernel, in a virtual machine with soft-RoCE and soft-iWARP.
# BUILD is a build directory with verbs_proof, broker_pair, ndbrokerd, ndctl (default: build/release).
# Exit 0: everything held, or this machine cannot run it (then a line says SKIPPED). 1: something did not hold.
set -u
HERE=$(cd "$(dirname "$0")" && pwd)
BUILD=$(realpath "${1:-$HERE/../../build/release}")
FOLDER=$(mktemp -d /tmp/ndbroker-vm.XXXXXX)
finish() { "$HERE/vm.sh" stop "$FOLDER" >/dev/null 2>&1; rm -rf "$FOLDER"; }
trap finish EXIT

"$HERE/prepare.sh"
case $? in
  0) ;;
  3) echo "SKIPPED: tests/vm: no virtual machine on this host; the verbs provider was NOT tested"; exit 0 ;;
  *) echo "FAIL tests/vm: prepare.sh"; exit 1 ;;
esac
for program in verbs_proof broker_pair ndbrokerd ndctl; do
  cp "$BUILD/bin/$program" "$FOLDER/" || { echo "FAIL tests/vm: build $program first"; exit 1; }
done
cp -L "$BUILD"/lib/libndbroker.so.0 "$FOLDER/"

FAILED=0
part() { # name command
  echo "== $1"
  "$HERE/vm.sh" run "$FOLDER" "$2"
  local code=$?
  [ $code = 0 ] || { echo "FAIL $1 (exit code $code)"; FAILED=1; }
}
"$HERE/vm.sh" start "$FOLDER" || { echo "FAIL tests/vm: the machine does not start"; exit 1; }
part "both halves of the provider, foreign peers (rping), devices that come and go" "timeout 240 $FOLDER/verbs_proof rxe0 siw0"
part "applications of a real broker, and its death" "timeout 240 bash $HERE/guest/brokered.sh $FOLDER"
"$HERE/vm.sh" stop "$FOLDER" || FAILED=1
[ $FAILED = 0 ] && echo "tests/vm: everything held"
exit $FAILED
