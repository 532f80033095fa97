#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The programs with an instrumented library: run.sh, features_test.sh, by_number_test.sh and foreign_test.sh.
# usage: sanitize.sh BUILD_DIR address|thread [WORD...]    WORD: a program of run.sh, or one of the other scripts; default: all
# Broker, ndctl and the programs are those of BUILD_DIR. Only the library comes from build/asan or build/tsan, which this
# script builds, and the runtime of the sanitizer is preloaded in front of it. The library of shared memory, that of BUILD_DIR,
# is in front of both, so that its blocks are there; else the sanitizer's allocator would give all memory.
# Leaks are not looked for, because the programs free little of what they make. A report of the sanitizer is a failure,
# whatever the program says.
set -u
build=$(cd "$1" && pwd) kind=$2
shift 2
here=$(cd "$(dirname "$0")" && pwd)
cd "$here/../.." || exit 2
case $kind in
  address) preset=asan runtime=libasan.so;;
  thread) preset=tsan runtime=libtsan.so;;
  *) sed -n '3,10s/^# \{0,1\}//p' "$0"; exit 2;;
esac
[ -e build/$preset/build.ninja ] || cmake --preset $preset > build/$preset.log 2>&1 || { cat build/$preset.log; exit 1; }
ninja -C build/$preset -j "${NDBROKER_JOBS:-$(nproc)}" nd_verbs > build/$preset/verbs.log 2>&1 || { tail -30 build/$preset/verbs.log; exit 1; }
runtime=$(readlink -f "$(gcc -print-file-name=$runtime)")

# A build folder in which 'ndctl run' starts programs with that library.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
chmod 755 "$work"
mkdir "$work/bin" "$work/reports"
ln -s "$build"/bin/* "$work/bin/"
ln -s "$build/lib" "$work/lib"
rm "$work/bin/ndctl"
cat > "$work/bin/ndctl" << END
#!/bin/bash
[ "\$1" = run ] || exec "$build/bin/ndctl" "\$@"
shift
options=()
while [ "\$1" != -- ]; do options+=("\$1"); shift; done
shift
mapfile -t variables < <("$build/bin/ndctl" env "\${options[@]}" | sed 's|$build/lib/ndbroker/verbs|$PWD/build/$preset/lib/ndbroker/verbs|g')
shared=libndbroker_share_memory.so
for i in "\${!variables[@]}"; do
  case \${variables[i]} in
    LD_PRELOAD=*\$shared*)
      variables[i]=LD_PRELOAD=$build/lib/ndbroker/verbs/\$shared:$runtime:\$(sed "s|^LD_PRELOAD=||; s|:[^:]*/\$shared||" <<< "\${variables[i]}");;
    LD_PRELOAD=*) variables[i]=LD_PRELOAD=$runtime:\${variables[i]#*=};;
  esac
done
# A process of fio that forks and starts a thread ends with "dup thread with used id" of TSan's runtime; threads are as good.
[ $kind-\$1 = thread-fio ] && set -- fio --thread "\${@:2}"
exec setarch -R env "\${variables[@]}" "\$@"
END
chmod +x "$work/bin/ndctl"

# A fault ends a program as it does without the sanitizer, whose handlers would exit.
faults=handle_segv=0:handle_sigbus=0:handle_sigfpe=0:allocator_may_return_null=1
export ASAN_OPTIONS=verify_asan_link_order=0:detect_leaks=0:strict_string_checks=1:$faults:log_path=$work/reports/asan
export UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1:log_path=$work/reports/ubsan
export TSAN_OPTIONS="suppressions=$PWD/tests/tsan.supp ignore_noninstrumented_modules=1 second_deadlock_stack=1 die_after_fork=0 report_thread_leaks=0 ${faults//:/ } log_path=$work/reports/tsan"
# TSan's runtime alone, also without this library and over TCP, ends programs of UCX when UCX replaces functions of memory.
# It does not know the coroutines of QEMU ("can't find longjmp buf").
[ $kind != thread ] || export UCX_MEM_EVENTS=no NDBROKER_VERBS_WITHOUT=qemu-migration
# Such programs are slow.
export NDBROKER_VERBS_PINGS=${NDBROKER_VERBS_PINGS:-2000} NDBROKER_VERBS_ADDS=${NDBROKER_VERBS_ADDS:-20000}
export NDBROKER_VERBS_PATIENCE=${NDBROKER_VERBS_PATIENCE:-120} NDBROKER_VERBS_HEAD_START=${NDBROKER_VERBS_HEAD_START:-2.5}
failed=0
run() {
  echo "---- $1"
  "$here/$@" || failed=1
}
programs=() scripts=()
for word in "${@:-all}"; do case $word in *.sh) scripts+=("$word");; *) programs+=("$word");; esac; done
[ $# = 0 ] && scripts=(features_test.sh by_number_test.sh foreign_test.sh)
[ ${#programs[@]} = 0 ] || run run.sh "$work" "${programs[@]}"
for script in "${scripts[@]}"; do run "$script" "$work"; done
# QEMU's coroutines make ASan warn that it does not know swapcontext().
for report in $(grep -rl "doesn't fully support makecontext" "$work/reports"); do
  grep -qE 'ERROR: |runtime error' "$report" || rm "$report"
done
reports=$(find "$work/reports" -type f | wc -l)
if [ "$reports" != 0 ]; then
  cat "$work"/reports/* | grep -hE 'ERROR: |WARNING: |runtime error|SUMMARY' | sort | uniq -c | sort -rn
  cat "$work"/reports/* > "build/$preset/verbs-reports.txt"
  echo "FOUND $reports reports: build/$preset/verbs-reports.txt"
  failed=1
fi
exit $failed
