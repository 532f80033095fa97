#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ./run.sh in the tree that was just built: --demo ends with 0, without it the broker stays until Ctrl-C.
source "$(dirname "$0")/lib.sh"
tree=$2
case $bin in
  "$(readlink -f "$tree")"/build/release/bin) ;;
  *)
    echo "run.sh builds and runs build/release, which is not the tree under test; skipped"
    exit 77
    ;;
esac

unset NDBROKER_DIR
export XDG_RUNTIME_DIR=$work/runtime
mkdir -m 700 "$XDG_RUNTIME_DIR"
expect 0 "$tree/run.sh" --demo
contains "$out" "all data arrived intact"
contains "$out" "Connected"
expect 1 "$tree/run.sh" --nonsense

"$tree/run.sh" > "$work/run.out" 2>&1 &
run=$!
until_true "the broker that stays" grep -q 'until Ctrl-C' "$work/run.out"
NDBROKER_DIR=$(sed -n 's/^ *export NDBROKER_DIR=//p' "$work/run.out")
expect 0 ndctl status --address "$NDBROKER_DIR"
kill -TERM "$run"
status=0
wait "$run" || status=$?
[ "$status" -eq 143 ] || fail "run.sh ended with $status"
expect 4 ndctl status --address "$NDBROKER_DIR"
done_well
