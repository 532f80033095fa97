#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# run.sh [BUILD [PART...]]: the verbs provider on Debian's own kernel, in a virtual machine with soft-RoCE and
# soft-iWARP. BUILD is a build directory (default: build/release); PARTs are some of
#   proof brokered changes foreign programs overcommit faults soft-siw conformance bench     (default: all of these, in this order)
#   answers: what rxe and siw answer to the scenarios and programs of tests/verbs-programs/answers, compared with the tables
#   there; NDBROKER_ANSWERS=FOLDER keeps what they answered. A quarter of an hour
#   waits: before conformance, the conformance cases that mostly wait for retransmissions of the kernel, a quarter of
#   an hour
# Exit 0: every check held, or this machine cannot run it (a line says SKIPPED). 1: a check failed.
set -u
HERE=$(cd "$(dirname "$0")" && pwd)
BUILD=$(realpath "${1:-$HERE/../../build/release}")
[ $# -gt 0 ] && shift
PARTS=${*:-proof brokered changes foreign programs overcommit faults soft-siw conformance bench}
PROGRAMS="verbs_proof broker_pair foreign_peer ndbrokerd ndctl ndperf nd_conformance nd_actor nd_probe"
[[ " $PARTS " != *" answers "* ]] || PROGRAMS+=" verbs_answers"
FOLDER=$(mktemp -d /tmp/ndbroker-vm.XXXXXX)
PORT=$((20000 + $$ % 12000))
finish() { "$HERE/vm.sh" stop "$FOLDER" >/dev/null 2>&1; rm -rf "$FOLDER"; }
trap finish EXIT

"$HERE/prepare.sh"
case $? in
  0) ;;
  3) echo "SKIPPED: tests/vm: no virtual machine on this host; the verbs provider was NOT tested"; exit 0 ;;
  *) echo "FAIL tests/vm: prepare.sh"; exit 1 ;;
esac
for program in $PROGRAMS; do
  cp "$BUILD/bin/$program" "$FOLDER/" || { echo "FAIL tests/vm: build $program first"; exit 1; }
done
cp -L "$BUILD"/lib/libndbroker.so.1 "$FOLDER/"
cp "$BUILD/lib/ndbroker/ndbrokerd-services.so" "$FOLDER/" || { echo "FAIL tests/vm: build ndbrokerd-services first"; exit 1; }
cp -rL "$BUILD/lib/ndbroker/verbs" "$FOLDER/verbs" || { echo "FAIL tests/vm: build nd_verbs first"; exit 1; }
gcc -O2 -Wall -Wextra -Werror -o "$FOLDER/kernel_peer" "$HERE/guest/kernel_peer.c" -lrdmacm -libverbs ||
  { echo "FAIL tests/vm: kernel_peer does not compile"; exit 1; }

FAILED=0
verdict() { # name exit-code begun
  echo "== $1: $([ "$2" = 0 ] && echo held || echo "FAILED (exit code $2)"), $(($(date +%s) - $3)) s"
  [ "$2" = 0 ] || FAILED=1
}
in_vm() { # name command
  local begun; begun=$(date +%s)
  echo "== $1"
  "$HERE/vm.sh" run "$FOLDER" "$2"
  verdict "$1" $? "$begun"
}
START=$(date +%s)
"$HERE/vm.sh" start "$FOLDER" --memory 3072 --forward "$PORT:7174" ||
  { echo "FAIL tests/vm: the machine does not start"; exit 1; }
# Copied into memory, readable by other users, because the shared folder is slow.
LIBRARIES=$(cd "$FOLDER" && ldd $PROGRAMS ./ndbrokerd-services.so kernel_peer "$(command -v ucmatose)" "$(command -v ib_send_lat)" |
  awk '$3 ~ /^\// && $3 !~ /libndbroker/ { print $3 }' | sort -u)
"$HERE/vm.sh" run "$FOLDER" "mkdir -p /run/nd /run/lib/ndbroker && cp $FOLDER/ndbrokerd-services.so /run/lib/ndbroker/ && cp -r $FOLDER/{verbs,${PROGRAMS// /,},libndbroker.so.1,kernel_peer} /run/nd/ &&
  cp -L $(echo $LIBRARIES) /run/nd/" || exit 1
for part in $PARTS; do
  case $part in
    proof) in_vm "both halves of the provider, devices that come and go" "timeout 300 env LD_LIBRARY_PATH=/run/nd /run/nd/verbs_proof rxe0 siw0" ;;
    brokered) in_vm "applications of a real broker, and its death" "timeout 300 bash $HERE/guest/brokered.sh /run/nd" ;;
    changes) in_vm "addresses, ports and devices that change under applications" "timeout 300 bash $HERE/guest/changes.sh /run/nd" ;;
    foreign) in_vm "foreign peers" "timeout 600 bash $HERE/guest/foreign.sh /run/nd" ;;
    programs) in_vm "unmodified programs on a soft adapter, with the kernel's siw" "timeout 300 bash $HERE/guest/programs.sh /run/nd" ;;
    overcommit) in_vm "shared memory where pages count when they are used" "timeout 120 bash $HERE/guest/overcommit.sh $BUILD/bin" ;;
    answers)
      in_vm "answers of rxe and siw" "timeout 2400 bash $HERE/guest/answers.sh /run/nd $FOLDER/answers"
      for kind in rxe siw; do
        [ -z "${NDBROKER_ANSWERS:-}" ] || cp "$FOLDER/answers/$kind.txt" "$NDBROKER_ANSWERS/"
        python3 "$HERE/../verbs-programs/answers/compare.py" $kind "$HERE/../verbs-programs/answers/$kind.txt" "$FOLDER/answers/$kind.txt" "$HERE/../verbs-programs/answers/differences.txt" ||
          { echo "FAIL tests/vm: $kind answers otherwise than tests/verbs-programs/answers/$kind.txt says"; FAILED=1; }
      done
      ;;
    faults) in_vm "faults that name their remedy" "timeout 300 bash $HERE/guest/faults.sh /run/nd" ;;
    bench) in_vm "ratios against ucmatose, rping and perftest" "timeout 900 bash $HERE/guest/bench.sh /run/nd" ;;
    waits) in_vm "conformance, the cases that wait" "timeout 2400 bash $HERE/guest/conformance.sh /run/nd $FOLDER/report waits" ;;
    conformance)
      in_vm "conformance" "timeout 2400 bash $HERE/guest/conformance.sh /run/nd $FOLDER/report cases"
      for kind in rxe siw; do
        [ -d "$FOLDER/report/$kind" ] && "$HERE/../conformance/summary.sh" "$FOLDER/report/$kind" | sed "s/^Verbs/$kind/"
      done
      ;;
    soft-siw)
      begun=$(date +%s)
      echo "== our iWARP on this host against the kernel's in the machine"
      LD_LIBRARY_PATH=$BUILD/lib "$HERE/soft_siw.sh" "$FOLDER" "$BUILD/bin" "$PORT"
      verdict soft-siw $? "$begun"
      ;;
    *) echo "FAIL tests/vm: no part called $part"; FAILED=1 ;;
  esac
done
"$HERE/vm.sh" stop "$FOLDER" || FAILED=1
echo "tests/vm: $([ $FAILED = 0 ] && echo everything held || echo something did not hold), $(($(date +%s) - START)) s"
exit $FAILED
