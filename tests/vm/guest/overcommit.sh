# SPDX-License-Identifier: Apache-2.0
# overcommit.sh FOLDER: in the virtual machine, with vm.overcommit_memory=2 and little memory to promise, the tests of shared
# memory in base_test and verbs_lib_test of FOLDER. Elsewhere they skip the cases for that setting.
FOLDER=$1 FAILED=0
MODE=$(cat /proc/sys/vm/overcommit_memory) RATIO=$(cat /proc/sys/vm/overcommit_ratio)
echo 30 > /proc/sys/vm/overcommit_ratio
echo 2 > /proc/sys/vm/overcommit_memory
check() { # program, filter
  "$FOLDER/$1" --gtest_filter="$2" > /tmp/overcommit 2>&1 && ! grep -qE 'SKIPPED.*(AreTaken|NoPage)' /tmp/overcommit &&
    { echo "ok   $1 $2"; return; }
  echo "FAIL $1 $2"; tail -n 15 /tmp/overcommit | sed 's/^/       /'; FAILED=1
}
check base_test 'PagesThatCountWhenUsed.*:Memfd*'
check verbs_lib_test 'BlocksTest.NoPage*:BlocksTest.AChild*:BlocksTest.AProgram*'
echo "$MODE" > /proc/sys/vm/overcommit_memory
echo "$RATIO" > /proc/sys/vm/overcommit_ratio
exit $FAILED
