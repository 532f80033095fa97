#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# memcheck over the programs without gRPC; exit 0: no error, nothing definitely lost.
set -euo pipefail
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../build/release/bin"
failed=0
# The table of registered regions is 16 MiB of untouched memory; the deadlines of hostile peers pass meanwhile.
for program in base_test soft_wire_test core_rules_test core_table_test core_ports_test core_listen_test \
  core_connect_test core_lifetime_test core_prepare_test state_journal_test; do
  [ -x "$program" ] || continue
  if valgrind --quiet --error-exitcode=9 --leak-check=full --errors-for-leak-kinds=definite "./$program" --gtest_brief=1 \
    > "valgrind.$program.log" 2>&1 < /dev/null; then
    echo "clean  $program"
  else
    failed=1
    echo "FOUND  $program" && grep -m 10 -E '^==[0-9]+== |FAILED' "valgrind.$program.log"
  fi
done
exit "$failed"
