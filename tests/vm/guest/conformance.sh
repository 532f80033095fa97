# SPDX-License-Identifier: Apache-2.0
# conformance.sh FOLDER REPORTS cases|waits: in the virtual machine, runs the conformance suite over rxe and siw, in
# several processes with devices of their own. waits: the cases that mostly wait for the kernel's own
# retransmissions, for minutes; cases: all others. JSON reports in REPORTS/rxe and REPORTS/siw; only failures are
# shown.
FOLDER=$1 REPORTS=$2 WHICH=$3
export LD_LIBRARY_PATH=$FOLDER NDBROKER_BIN=$FOLDER
# The factor by which this machine is slower than an ordinary one. Every time-out of the suite is multiplied by it.
export NDBROKER_TIME_FACTOR=${NDBROKER_TIME_FACTOR:-4}
WAITING='*ND_081*:*ND_082*:*ND_083*:*ND_088*:*ND_089*:*ND_090*:*ND_138*:*ND_140*:*ND_169_Unreachable*:*ND_185*:*ND_197*'
pids=()
run() { # kind name cables filter [shard of]
  local site
  site=$(bash "$(dirname "$0")/cables.sh" "$1" "$3") || exit 1
  mkdir -p "$REPORTS/$1"
  (
    eval "$site"
    [ $# -lt 6 ] || export GTEST_SHARD_INDEX=$5 GTEST_TOTAL_SHARDS=$6
    "$FOLDER/nd_conformance" --transport=Verbs "--gtest_filter=$4" --gtest_brief=1 \
      "--gtest_output=json:$REPORTS/$1/$2.json" > "/tmp/conformance.$1.$2" 2>&1
    code=$?
    echo "-- $1 $2: exit code $code after $SECONDS s"
    [ $code = 0 ] || grep -vE '^(EXCEPTED|Note|.*: Skipped$|\[  SKIPPED)' "/tmp/conformance.$1.$2" | head -150
    exit $code
  ) &
  pids+=($!)
}
if [ "$WHICH" = waits ]; then
  for kind in rxe siw; do run $kind waits 0 "$WAITING"; done
else
  # On siw most of the time passes in the kernel's own time-outs of ten seconds.
  for shard in 0 1; do run rxe cases$shard $((shard + 1)) "*ND_*:-$WAITING" $shard 2; done
  for shard in 0 1 2 3; do run siw cases$shard $((shard + 1)) "*ND_*:-$WAITING" $shard 4; done
fi
failed=0
for pid in "${pids[@]}"; do wait "$pid" || failed=1; done
exit $failed
