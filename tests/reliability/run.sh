#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Prints the table of the reliability targets: target, measured, verdict, command.
# usage: tests/reliability/run.sh [--quick | --long] [--rows R] [BUILD]
#   --quick  200 connections and 3 kills instead of 10,000 and 20, fewer seeds and races, ten seconds of mutated shared
#            memory; without the tests that build the tree again or need a system of their own, unless --rows names them
#   --long   the counts of the targets also where they take long: 1,000,000,000 frames (row 8, 50 minutes of two
#            processors), 1,000,000 damaged frames (21), 20,000 seeds (23, 45 minutes of one), 1,000,000 races (34)
#   --rows R only these rows, for example "16 17"
# Verdicts: met, missed: measured against the target. unclear: measured, but the run could not show it. passed, failed:
# a test or a smaller count, which the row says, so that it does not show that the target is met. skipped, not run: no
# result. Exit 0: nothing is missed or failed.
set -uo pipefail
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../.." || exit 2
scale=(10000 20)
note= attack='--connects 400' rows=
seeds=1..10000 races=100000 flips=10000 frames=100000 endured=600 mutations=
# Verdict of a program that tries the whole count of the target.
all=passed
except='^$'
build=build/release
while [ $# -gt 0 ]; do
  argument=$1
  shift
  case $argument in
    --rows) rows=" ${1:?run.sh: --rows needs numbers} " && shift ;;
    --quick) seeds=1..200 races=600 flips=2000 endured=10
      frames=20000 scale=(200 3) note=' (quick form: fewer connections than the target)' attack='--short' except='^(teeth|sanitize|system)[.]' ;;
    --long) seeds=1..20000 races=333334 frames=1000000 mutations=1000000000 all=met ;;
    -h | --help) sed -n '3,13s/^# \{0,1\}//p' "$0" && exit 0 ;;
    -*) echo "run.sh: unknown option $argument; --help shows the usage" >&2 && exit 2 ;;
    *) build=$argument ;;
  esac
done
top=$PWD build=$(readlink -f "$build")
[ -x "$build/bin/nd_reliability" ] || { echo "run.sh: $build/bin/nd_reliability is missing; build it first" >&2; exit 2; }
[ -z "$rows" ] || except='^$'
restarts=$(sed -n 's/.*--restarts \([0-9]*\).*/\1/p' tests/system/CMakeLists.txt)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
bad=0

# wanted NUMBER: whether the row was asked for.
wanted() { [ -z "$rows" ] || [[ $rows == *" $1 "* ]]; }
line() {
  case $4 in missed | failed) bad=1 ;; esac
  printf '| %s | %s | %s | %s | %s | %s |\n' "$1" "$2" "$3" "$5" "$4" "$6"
}
# measured NUMBER PROMISE TARGET PART: a row that `nd_reliability PART` prints; each part runs once.
measured() {
  wanted "$1" || return 0
  local command="nd_reliability $4 ${scale[*]}" verdict="not run" text status found
  if [ ! -e "$work/$4" ]; then
    timeout 1500 "$build/bin/nd_reliability" "$4" "${scale[@]}" > "$work/$4" 2> "$work/$4.error" < /dev/null
    echo $? > "$work/$4.status"
  fi
  status=$(cat "$work/$4.status")
  found=$(grep -m1 "^row $1|" "$work/$4")
  if [ -n "$found" ]; then
    IFS='|' read -r _ verdict text <<< "$found"
    text+=$note
    # With fewer connections than the target asks for, the row can show that the target is missed, but not
    # that it is met.
    [ -z "$note" ] || [ "$verdict" != met ] || verdict=passed
  elif [ "$status" -eq 77 ]; then
    verdict=skipped text=$(tail -1 "$work/$4.error")
  else
    verdict=failed text="no result: $(tail -1 "$work/$4.error")"
  fi
  line "$1" "$2" "$3" "$verdict" "$text" "\`$command\`"
}
# tested NUMBER PROMISE TARGET REGEX WHAT: tests that ctest knows, and what they do.
tested() {
  wanted "$1" || return 0
  local verdict log=$work/ctest.$1 text
  ctest --test-dir "$build" -j2 -R "$4" -E "$except" --no-tests=error > "$log" 2>&1 < /dev/null && verdict=passed || verdict=failed
  # A missing program or a skipped test gives no verdict.
  if ! grep -qE '\*\*\*(Failed|Exception|Timeout)' "$log"; then
    if grep -qE 'No tests were found|Not Run|_NOT_BUILT' "$log"; then
      verdict="not run"
    elif grep -q '\*\*\*Skipped' "$log" && ! grep -q ' Passed ' "$log"; then
      verdict=skipped
    fi
  fi
  case $verdict in passed | failed) text="$5: $(grep -m1 'tests passed' "$log")" ;; *) text="no result" ;; esac
  line "$1" "$2" "$3" "$verdict" "$text" "\`ctest -R '${4//|/\\|}'\`"
}
# attacked NUMBER PROMISE TARGET PROGRAM ATTACK QUANTITY LIMIT: the honest tenant's p99 in milliseconds while the attack runs.
attacked() {
  wanted "$1" || return 0
  local out=$work/attack.$1 verdict text worst idle p99
  timeout 900 "$build/bin/$4" $attack --only "$5" > "$out" 2>&1 < /dev/null
  text=$(grep "^summary $6 " "$out")
  idle=$(sed -n 's/.*idle_p99_us=\([0-9.]*\).*/\1/p' <<< "$text")
  worst=$(sed -n 's/.*worst_p99_us=\([0-9.]*\).*/\1/p' <<< "$text")
  if grep -q 'needs a network of its own' "$out"; then
    line "$1" "$2" "$3" skipped "no result" "\`$4 $attack --only $5\`"
    return
  fi
  p99=$(awk -v us="${worst:-0}" 'BEGIN { printf "%.2f", us / 1000 }')
  verdict=missed
  awk -v us="${worst:-0}" -v most="$7" 'BEGIN { exit !(us > 0 && us <= 1000 * most) }' && verdict=met
  # Attackers, brokers and the tenant share the processors of this host, so a p99 above the limit proves
  # nothing.
  [ "$verdict" = met ] || verdict=unclear
  grep -q ' 0 faults$' "$out" || verdict=failed
  [ -z "$note" ] || [ "$verdict" != met ] || verdict=passed
  line "$1" "$2" "$3" "$verdict" "p99 $p99 ms, idle $(awk -v us="${idle:-0}" 'BEGIN { printf "%.2f", us / 1000 }') ms; $(tail -1 "$out")$note" "\`$4 $attack --only $5\`"
}
# ran NUMBER PROMISE TARGET WHAT COMMAND [VERDICT]: a program of the build that exits with 0 when the promise held; WHAT
# it did, and the verdict of a success.
ran() {
  wanted "$1" || return 0
  local out=$work/ran.$1 status=0 verdict=${6:-passed}
  (cd "$build" && timeout 7200 bash -c "bin/$5") > "$out" 2>&1 < /dev/null || status=$?
  [ "$status" -eq 0 ] || verdict=failed
  # Some programs skip what they cannot do, and succeed.
  if [ "$status" -eq 77 ] || grep -qE 'needs a network|no private network' "$out"; then verdict=skipped; fi
  line "$1" "$2" "$3" "$verdict" "$4: $(grep -v '^ *$' "$out" | tail -1)" "\`$5\`"
}
# fuzzed NUMBER PROMISE TARGET COUNT: mutations of the corpora of frames, a tenth of them for each place in the list. Each
# processor has one program at a time, and each program has its own numbers.
fuzzed() {
  wanted "$1" || return 0
  local part=0 parts=40 target files verdict=met text
  local -a all_targets=(terminate terminate terminate terminate fpdu fpdu mpa_request mpa_request mpa_reply mpa_reply)
  for ((part = 0; part < parts; part++)); do
    target=${all_targets[part % ${#all_targets[@]}]}
    while [ "$(jobs -rp | wc -l)" -ge "$(nproc)" ]; do wait -n; done
    (cd "$work" && "$build/bin/fuzz_$target" --mutations $(($4 / parts)) --first $((part * ($4 / parts))) \
      "$top/tests/fuzz/corpus/$target" > "$work/fuzz.$part" 2>&1 < /dev/null; echo $? > "$work/fuzz.$part.status") &
  done
  wait
  for ((part = 0; part < parts; part++)); do
    [ "$(cat "$work/fuzz.$part.status")" -eq 0 ] || { verdict=failed && text=" ${all_targets[part % ${#all_targets[@]}]}: $(tail -1 "$work/fuzz.$part")"; }
  done
  files=$(find tests/fuzz/corpus/{terminate,fpdu,mpa_request,mpa_reply} -type f | wc -l)
  line "$1" "$2" "$3" "$verdict" "$4 mutations of $files frames and streams, by the targets $(printf '%s\n' "${all_targets[@]}" | sort | uniq -c | awk '{ printf "%s%s %d %%", n++ ? ", " : "", $2, 10 * $1 }')$text" "\`run.sh --long --rows 8\`"
}
# coverage_row NUMBER PROMISE TARGET: the recorded results of the last runs of the two programs, which take
# too long for this table.
coverage_row() {
  wanted "$1" || return 0
  local covered killed verdict
  covered=$(sed -n 's/^| coverage .* | \(.*\) |$/\1/p' docs/proof.md)
  killed=$(sed -n 's/^| mutants .* | \(.*\) |$/\1/p' docs/proof.md)
  verdict=$(awk -v lines="$(sed -n 's/.* \([0-9.]*\) % of [0-9,]* lines.*/\1/p' <<< "$covered")" \
    -v branches="$(sed -n 's/.*lines, \([0-9.]*\) % of.*/\1/p' <<< "$covered")" \
    -v mutants="$(sed -n 's/.* killed (\([0-9.]*\) %).*/\1/p' <<< "$killed")" 'BEGIN {
      if (lines == "" || branches == "" || mutants == "") print "not run"
      else print ((lines >= 100 && branches >= 98 && mutants >= 95) ? "met" : "missed")
    }')
  line "$1" "$2" "$3" "$verdict" "recorded $covered; recorded $killed" '`tests/coverage/run.sh`, `tests/mutation/run.py --sample 0`'
}
# stalled NUMBER PROMISE TARGET: the longest round of the loop under each attack of a client. The kernel runs the loop
# first, so that a long round is work of the broker.
stalled() {
  wanted "$1" || return 0
  local out=$work/stalls verdict text
  timeout 1500 "$build/bin/hostile_client" $attack --loop-first --stalls > "$out" 2>&1 < /dev/null
  text=$(grep '^summary loop ' "$out" | sed 's/^summary loop //')
  case $(tail -1 "$out") in *' 0 faults') verdict=met ;; *' faults') verdict=missed ;; *) verdict=failed ;; esac
  grep -qE 'needs a network of its own|--loop-first:' "$out" && verdict=skipped
  [ -z "$note" ] || [ "$verdict" != met ] || verdict=passed
  line "$1" "$2" "$3" "$verdict" "${text:-no result} (upper bounds of the histogram); $(tail -1 "$out")$note" "\`hostile_client $attack --loop-first --stalls\`"
}
# failing NUMBER PROMISE TARGET: system calls and allocations fail; the quick form visits one place in twelve, of
# allocations one in 48.
failing() {
  wanted "$1" || return 0
  local out=$work/fail verdict=passed parts=12
  [ -n "$note" ] || parts=1
  timeout 3000 "$build/bin/nd_crash" --parts $parts --gtest_filter='*Fail*.SystemCalls*' > "$out" 2>&1 < /dev/null || verdict=failed
  timeout 3000 "$build/bin/nd_crash" --parts $((4 * parts)) --gtest_filter='*Fail*.Allocations*' >> "$out" 2>&1 < /dev/null || verdict=failed
  grep -q 'needs a network of its own' "$out" && verdict=skipped
  line "$1" "$2" "$3" "$verdict" "$(grep -cE '^(Local|Iwarp).* calls (in|at)' "$out") processes, $(grep -oE '[0-9]+ places' "$out" | awk '{ n += $1 } END { print n + 0 }') places$note" "\`nd_crash --parts $parts --gtest_filter='*Fail*'\`"
}

echo "$(date -u +%F), $(git describe --always --dirty 2> /dev/null || echo '?'), $(nproc) cores ($(sed -n 's/^model name.*: //p' /proc/cpuinfo | head -1)), kernel $(uname -r), load $(cut -d' ' -f1 /proc/loadavg)"
echo
echo "| # | promise | target | measured | verdict | command |"
echo "|--:|---|---|---|---|---|"
measured 1 "connections survive kill -9 of the broker" "10,000 connections, 20 kills: 0 lost, 0 lost or reordered messages" restarts
measured 2 "delay of data added by a kill" "5 ms at p99.9" restarts
measured 3 "listeners accept again after a kill" "250 ms at p99" restarts
measured 4 "10,000 connections are known again" "2 s" restarts
tested 5 "refused handshakes at a restart under load" "0 of 1,000,000 over 100 restarts" '^system.restarts$' "$restarts restarts under traffic; the long form is tests/system/run.sh --restarts 1000 restarts"
measured 6 "objects of a killed application are reclaimed" "20 ms + 50 us each; one: 5 ms" reclaim
measured 7 "its peers learn of its end" "the same and a round trip" reclaim
if [ -n "$mutations" ]; then
  fuzzed 8 "malformed frames" "1,000,000,000 in all, 10,000,000 a change: 0 crashes" "$mutations"
else
  tested 8 "malformed frames" "1,000,000,000 in all, 10,000,000 a change: 0 crashes" '^fuzz\.' "the corpora and $(sed -n 's/.*MUTATIONS \([0-9]*\).*/\1/p' tests/fuzz/CMakeLists.txt | awk '{ n += $1 } END { print n }') mutations of them"
fi
measured 9 "malformed handshakes over sockets" "1,000,000: 0 crashes" handshakes
attacked 10 "handshake flood, delay of an honest peer (the rate of the flood: not measured)" "30,000 a second on 2 cores: p99 25 ms" hostile_peer W2.flood connect 25
measured 11 "10,000 slow peers, delay of an honest one" "p99 50 ms, 2 KiB each" slow-peers
measured 12 "a full backlog answers" "a round trip and 2 ms, 0 silent drops" backlog
measured 13 "hand-over of four descriptors" "p50 50 us, p99 300 us" costs
measured 14 "a segment of shared memory is made" "p50 150 us" costs
attacked 15 "operation of a session, also beside a client that connects in vain" "p50 200 us, p99 2 ms" hostile_client L10.connect-to-myself operation 2
measured 16 "a full table of descriptors" "recovers within 250 ms, earlier sessions lose no operation" descriptors
measured 17 "clients that take no descriptors" "200 of them: p99 of an honest hand-over 5 ms" descriptors
stalled 18 "longest stall of the loop under an attack of a client, on top of idle" "5 ms"
measured 19 "stolen ports (tokens, process ids and handles: not measured)" "0 of 10,000" restarts
measured 20 "randomness of STags" "30 bits over 10,000,000" stags
ran 21 "bytes of a frame with a wrong CRC that an application sees" "0 in 1,000,000 flips" "$frames damaged frames at a queue pair, $flips random flips between two brokers, each seventh bit of some frames, 400,000 flips in the decoder" "nd_integrity --gtest_brief=1 --flips $flips --frames $frames --gtest_filter='Flips*'" "$all"
ran 22 "shared memory that changes while it is used" "10 minutes: 0 crashes, 0 hangs" "random bits for $endured seconds" "hostile_peer --short --only M2.flip-bits --seconds $endured"
ran 23 "simulation" "10,000,000 schedules a night" "seeds $seeds" "ndsim --seeds $seeds"
tested 24 "model" "4 properties, 1,000,000 states, 60 s" '^model\.broker$' "5 properties verified, 8 broken variants refuted, without the large model"
tested 25 "historical bugs" "25 of 25 caught" '^teeth\.some$' "the six of this hour, of $(ls tests/teeth/*.patch | wc -l)"
failing 26 "each allocation and system call fails" "all points: 0 aborts, 0 leaks"
coverage_row 27 "coverage; mutants killed" "100 % of lines, 98 % of branches; 95 %"
tested 28 "a damaged journal" "every cut, 100,000 flips" '^Journal(Image)?\.(Truncated|Flipped|Forged|Garbage|Records)' "each cut of a journal of 120 leases, 100,000 flips of one bit, 2,000 more one after another; the time is not measured"
tested 29 "1,000 restarts" "descriptors and ports as before" '^system.restarts$' "$restarts restarts under traffic; the long form is tests/system/run.sh --restarts 1000 restarts"
measured 30 "memory of a broker with 10,000 connections" "140 MiB" restarts
measured 31 "an honest user against 100 greedy processes" "45 % of the throughput, p99 three times idle" fairness
tested 32 "sandbox" "systemd-analyze security: 2.0" '^system.units$' "the units of the package"
tested 33 "sanitizers over every corpus" "0 findings" '^sanitize.corpus$' "every input under ASan and UBSan"
ran 34 "each operation completes once in races" "1,000,000 races" "$races races in each of three modes" "nd_crash --gtest_brief=1 --races $races --gtest_filter='Crash/Races.*'" "$all"
exit "$bad"
