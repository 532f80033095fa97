# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# For tests/windows/run.sh: the conformance suite under Wine, one group and transport after the other, and its table by
# number. The suite has the ports of a network namespace of its own where this user may make one.
#   NDBROKER_CONFORMANCE_GROUPS  some of its groups, such as "D01 D05" (default: all)
groups() {
  echo "${NDBROKER_CONFORMANCE_GROUPS:-$(find tests/conformance -name 'd*_test.cc' -printf '%f\n' | cut -c1-3 | sort -u | tr '[:lower:]\n' '[:upper:] ')}"
}
# A network namespace with loopback alone, which has fd00::1 to fd00::9.
# shellcheck disable=SC2016
private=(unshare --net bash -c 'ip link set lo up
  for i in 1 2 3 4 5 6 7 8 9; do ip addr add "fd00::$i/128" dev lo nodad; done
  exec env NDBROKER_TEST_PRIVATE_NETWORK=1 "$@"' bash)

conformance() {
  local reports=$build/conformance group transport log status where=("${private[@]}")
  unshare --net true 2> /dev/null || where=()
  mkdir -p "$reports"
  rm -f "$reports"/*
  echo
  for transport in Local Iwarp; do
    for group in $(groups); do
      log=$reports/$group.$transport.log
      status=0
      # Wine makes every process slower.
      NDBROKER_TIME_FACTOR=${NDBROKER_TIME_FACTOR:-4} timeout 1800 "${where[@]}" wine "$build/bin/nd_conformance.exe" \
        --gtest_filter="$group*/$transport" --gtest_output="json:$(wine_path "$reports/$group.$transport.json")" \
        < /dev/null > "$log" 2>&1 || status=$?
      result=ok
      [ "$status" -eq 0 ] || { result="FAILED (exit $status, $log)" && failed=1; }
      printf '%-40s %s %s\n' "conformance-$group-$transport" "$(grep -a '^\[  PASSED' "$log" | tail -1 | tr -d '\r')" "$result"
    done
  done
  tests/conformance/summary.sh "$reports" || failed=1
}
