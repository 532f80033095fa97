#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The conformance suite under Wine, one group and transport after the other, and its table by number. Exit 0: all passed.
#
# The suite has the ports and addresses of a network namespace of its own where this user may make one, and a Wine prefix of its own in it, because the sockets and
# addresses of all programs of a prefix are those of the namespace of its first program.
# usage: tests/windows/conformance.sh
#   NDBROKER_CONFORMANCE_GROUPS  some of its groups, such as "D01 D05" (default: all)
set -euo pipefail
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../.."
case ${1-} in
  -h | --help) sed -n '3,8s/^# \{0,1\}//p' tests/windows/conformance.sh && exit 0 ;;
esac
deploy/windows/build.sh nd_conformance ndbrokerd
if [ -z "${NDBROKER_TEST_PRIVATE_NETWORK:-}" ] && unshare --net true 2> /dev/null; then
  # Loopback alone, which has fd00::1 to fd00::9.
  # shellcheck disable=SC2016
  exec unshare --net bash -c 'ip link set lo up
    for i in 1 2 3 4 5 6 7 8 9; do ip addr add "fd00::$i/128" dev lo nodad; done
    exec env NDBROKER_TEST_PRIVATE_NETWORK=1 "$@"' bash tests/windows/conformance.sh
fi
# shellcheck source=tests/windows/wine_prefix.sh
source tests/windows/wine_prefix.sh
failed=0
reports=$build/conformance
mkdir -p "$reports"
rm -f "$reports"/*
groups=${NDBROKER_CONFORMANCE_GROUPS:-$(find tests/conformance -name 'd*_test.cc' -printf '%f\n' | cut -c1-3 | sort -u | tr '[:lower:]\n' '[:upper:] ')}
for transport in Local Iwarp; do
  for group in $groups; do
    log=$reports/$group.$transport.log
    status=0 result=ok
    # Wine makes every process slower.
    NDBROKER_TIME_FACTOR=${NDBROKER_TIME_FACTOR:-4} timeout 1800 wine "$build/bin/nd_conformance.exe" --gtest_filter="$group*/$transport" \
      --gtest_output="json:Z:$(readlink -m "$reports/$group.$transport.json" | tr / '\\')" < /dev/null > "$log" 2>&1 || status=$?
    [ "$status" -eq 0 ] || { result="FAILED (exit $status, $log)" && failed=1; }
    printf '%-40s %s %s\n' "conformance-$group-$transport" "$(grep -a '^\[  PASSED' "$log" | tail -1 | tr -d '\r')" "$result"
  done
done
tests/conformance/summary.sh "$reports" || failed=1
exit "$failed"
