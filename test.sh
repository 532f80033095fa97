#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs what is missing, builds, and runs every test; --quick: the part that takes under two minutes.
set -euo pipefail
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")"
source deploy/setup.sh

usage() {
  cat << 'END'
usage: ./test.sh [--quick] [CTEST-OPTION...]
  --quick   only the tests that together take under two minutes
Other options go to ctest, for example -R ND_061. The last line is ctest's summary.
END
}

quick=
ctest_options=()
for argument in "$@"; do
  case $argument in
    -h | --help) usage && exit 0 ;;
    --quick) quick=1 ;;
    *) ctest_options+=("$argument") ;;
  esac
done
[ -z "$quick" ] || ctest_options+=(-LE slow)

install_packages
build_targets
say "running the tests"
# Tests find a broker by its rule; one that runs here already is none of their business.
unset NDBROKER_DIR NDCTL_ADDRESS NDCTL_OUTPUT
log=$build/test.log
# Shown while it runs: failures with their output, and how far it is.
set +e
ctest --test-dir "$build" -j2 --output-on-failure --no-tests=error "${ctest_options[@]}" < /dev/null 2>&1 |
  tee "$log" | awk '
    / tests passed, / { over = 1 }
    over { next }
    /^ *Start +[0-9]+: / { next }
    /^ *[0-9]+\/[0-9]+ Test +#[0-9]+: .*(Passed|Skipped)/ {
      split($1, count, "/")
      if (count[1] % 100 == 0) { print "   " $1; fflush() }
      next
    }
    { print; fflush() }'
status=${PIPESTATUS[0]}
set -e

# Then the conformance cases by number, and ctest's own summary as the very last line.
say "conformance, by number (behaviour.md, part d)"
conformance=$(sed -nE 's/^ *[0-9]+\/[0-9]+ Test +#[0-9]+: .*(ND_[0-9]{3})[^ ]* \.* *(\*+)?(Passed|Skipped|Failed|Timeout|Not Run|Exception).*/\1 \3/p' "$log")
if [ -n "$conformance" ]; then
  awk '{ if (!total[$1]++) numbers++; if ($2 == "Passed") passed[$1]++; else if ($2 == "Skipped") skipped[$1]++; else failed[$1]++ }
    END {
      for (n in total) {
        if (failed[n]) { bad++; print n ": " failed[n] " of " total[n] " failed" }
        else if (skipped[n] == total[n]) none++
        else good++
      }
      printf "%d numbers: %d pass on every transport they ran on, %d fail, %d were skipped\n", \
        numbers, good, bad, none
    }' <<< "$conformance" | sort
else
  echo "no numbered case was selected"
fi
skipped=$(grep -cE 'Test +#[0-9]+: .*Skipped' "$log" || true)
[ "$skipped" -eq 0 ] || echo "skipped: $skipped (see $log)"
sed -n '/tests failed out of/,$p' "$log" | grep -vE 'tests passed, |^Total Test time|^Label Time|^ *$|^slow |^Errors while' || true
grep -E '^Total Test time' "$log" || true
summary=$(grep -E 'tests passed, [0-9]+ tests failed out of [0-9]+' "$log" | tail -1 || true)
if [ -z "$summary" ]; then
  tail -20 "$log" >&2
  die "ctest did not run to its end (exit $status)"
fi
give_back
echo "$summary"
exit "$status"
