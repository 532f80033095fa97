#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs what is missing, builds, and runs every test; --quick: unit tests and ndctl with a real broker.
set -euo pipefail
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")"
source deploy/setup.sh

usage() {
  cat << 'END'
usage: ./test.sh [--quick] [CTEST-OPTION...]
       ./test.sh --windows [PART...]
  --quick   only the unit tests, and the commands and examples with a real broker; in a build directory
            that has all tests: all but the slow ones
  --windows only the Windows build and its tests under Wine (docs/windows.md)
Other options go to ctest, for example -R core, or -L conformance (one entry for each part and transport).
The last line is ctest's summary.
END
}

quick=
ctest_options=()
for argument in "$@"; do
  case $argument in
    -h | --help) usage && exit 0 ;;
    --quick) quick=1 ;;
    --windows) shift && exec tests/windows/run.sh "$@" ;;
    *) ctest_options+=("$argument") ;;
  esac
done
[ -z "$quick" ] || ctest_options+=(-LE slow)
tests=${quick:+QUICK}

install_packages deploy/packages.txt deploy/packages-test.txt
# Clones of this tree share what ccache holds.
export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1
! command -v dpkg-query > /dev/null || export NDBROKER_TEST_PACKAGES=1  # A test that misses one fails.
build_targets "${tests:-ON}"
say "running the tests"
# Tests find their brokers by these variables; a broker that runs on this host must not be used.
unset NDBROKER_DIR NDCTL_ADDRESS NDCTL_OUTPUT
log=$build/test.log
rm -rf "$build/conformance"  # Reports of this run only.
# Shown while it runs: failures with their output, and how far it is.
set +e
show_progress "$log" '^ *[0-9]+/[0-9]+ Test' &
watcher=$!
ctest --test-dir "$build" -j2 --output-on-failure --no-tests=error "${ctest_options[@]}" < /dev/null 2>&1 |
  tee "$log" | awk '
    / tests passed, / { over = 1 }
    over || /^ *Start +[0-9]+: / || /^ *[0-9]+\/[0-9]+ Test +#[0-9]+: .*(Passed|Skipped)/ { next }
    { print; fflush() }'
status=${PIPESTATUS[0]}
kill "$watcher" 2> /dev/null
wait "$watcher" 2> /dev/null
[ ! -t 1 ] || printf '\r\033[K'
set -e

# Then the conformance cases by number, and ctest's own summary as the very last line.
unsound=
say "conformance, by number (docs/behaviour.md, section d)"
if compgen -G "$build/conformance/*.json" > /dev/null; then
  # Without options that choose a part, the summary must cover all cases.
  whole=()
  [ ${#ctest_options[@]} -gt 0 ] || whole=(--whole)
  tests/conformance/summary.sh "${whole[@]}" "$build/conformance" || unsound=1
  if compgen -G "$build/conformance/grpc/*.json" > /dev/null; then
    tests/conformance/summary.sh "${whole[@]}" "$build/conformance/grpc" | sed 's/^Local/Local, sessions by gRPC/' || unsound=1
  elif [ ${#whole[@]} -gt 0 ]; then
    echo "no report of the sessions by gRPC" && unsound=1
  fi
else
  echo "no numbered case was selected"
fi
skipped=$(grep -cE 'Test +#[0-9]+: .*Skipped' "$log" || true)
[ "$skipped" -eq 0 ] || echo "skipped: $skipped (see $log)"
sed -n '/tests failed out of/,$p' "$log" | grep -vE 'tests passed, |^Total Test time|^Label Time|^ *$|^slow |^conformance |^Errors while' || true
grep -E '^Total Test time' "$log" || true
summary=$(grep -E 'tests passed, [0-9]+ tests failed out of [0-9]+' "$log" | tail -1 || true)
if [ -z "$summary" ]; then
  tail -20 "$log" >&2
  die "ctest did not run to its end (exit $status)"
fi
give_back
echo "$summary"
[ -z "$unsound" ] || [ "$status" -ne 0 ] || die "the conformance reports are not whole: see above"
exit "$status"
