# SPDX-License-Identifier: Apache-2.0
# conformance.sh FOLDER REPORTS [FILTER]: in the virtual machine, the conformance suite over rxe and over siw at the
# same time, and the cases that mostly wait for the kernel's own retransmissions beside them. One JSON report each in
# REPORTS/rxe and REPORTS/siw; only failures are shown.
FOLDER=$1 REPORTS=$2 FILTER=${3:-*}
export LD_LIBRARY_PATH=$FOLDER NDBROKER_BIN=$FOLDER
# How much slower than an ordinary machine this one is taken to be; every time-out of the suite is multiplied by it.
export NDBROKER_TIME_FACTOR=${NDBROKER_TIME_FACTOR:-4}
WAITING='*ND_081*:*ND_082*:*ND_083*:*ND_088*:*ND_089*:*ND_090*:*ND_138*:*ND_140*:*ND_169_Unreachable*:*ND_185*:*ND_197*'
run() { # kind name filter
  mkdir -p "$REPORTS/$1"
  "$FOLDER/nd_conformance" --transport=Verbs "--gtest_filter=$3" --gtest_brief=1 \
    "--gtest_output=json:$REPORTS/$1/$2.json" > "/tmp/conformance.$1.$2" 2>&1
  local code=$?
  echo "-- $1 $2: exit code $code"
  [ $code = 0 ] || grep -vE '^(EXCEPTED|Note|\[  SKIPPED)' "/tmp/conformance.$1.$2" | head -150
  return $code
}
pids=()
for kind in rxe siw; do
  site=$(bash "$(dirname "$0")/cables.sh" $kind) || exit 1
  (eval "$site"; run $kind cases "$FILTER:-$WAITING") & pids+=($!)
  [ "$FILTER" = '*' ] || continue
  (eval "$site"; run $kind waits "$WAITING") & pids+=($!)
done
failed=0
for pid in "${pids[@]}"; do wait "$pid" || failed=1; done
exit $failed
