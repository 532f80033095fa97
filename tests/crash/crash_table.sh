#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Kills each process at every step and prints the table of the statuses that the survivors saw, with times.
#   crash_table.sh BUILD_DIR/bin [more arguments of nd_crash]
set -euo pipefail
if [[ $# -lt 1 || ! -x "$1/nd_crash" ]]; then
  echo "usage: $0 BUILD_DIR/bin [--gtest_filter=...]; nd_crash was not found in '${1-}': build it first" >&2
  exit 2
fi
bin=$1
shift
log=$(mktemp)
trap 'rm -f "$log"' EXIT
status=0
"$bin/nd_crash" --gtest_filter='*Kill*' "$@" >"$log" 2>&1 || status=$?
sed -n '/^mode  *step  *killed/,$p' "$log"
if [[ $status -ne 0 ]]; then
  echo "nd_crash failed with status $status:" >&2
  grep -A 12 'Failure$' "$log" >&2 || tail -20 "$log" >&2
fi
exit "$status"
