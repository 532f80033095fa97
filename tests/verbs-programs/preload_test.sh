#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# 'ndctl run' and programs that use no RDMA, a missing broker, and programs that cannot be preloaded.
# usage: preload_test.sh BUILD_DIR
set -u
build=$1
ndctl=$build/bin/ndctl
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export NDBROKER_DIR=$work/none
failed=0
check() { if ! eval "$2"; then echo "FAIL: $1"; cat "$work/out" "$work/err" 2> /dev/null; failed=1; fi; }
run() { "$ndctl" run "$@" > "$work/out" 2> "$work/err"; }

run -- sh -c 'echo hello; exit 7'
check "the status is the program's" "[ $? = 7 ]"
check "the output is the program's" '[ "$(cat "$work/out")" = hello ] && [ ! -s "$work/err" ]'

if command -v ibv_devinfo > /dev/null; then
  run -- ibv_devinfo
  check "without a broker there is no device" "[ $? != 0 ]"
  check "and one line says so" '[ "$(grep -c "ndbroker: no RDMA device: no broker answers at" "$work/err")" = 1 ]'
fi

if command -v rping > /dev/null; then
  run -- rping -c -a 127.0.0.1
  status=$?
  check "a program of rdma_cm fails and does not crash" "[ $status -gt 0 ] && [ $status -lt 124 ]"
  check "and has the same line" '[ "$(grep -c "^ndbroker: " "$work/err")" = 1 ]'
fi
run -- "$work/absent"
check "a program that does not exist is named" "[ $? = 3 ] && grep -q absent '$work/err'"

printf 'int main() { return 0; }' > "$work/main.c"
if gcc -static -o "$work/static" "$work/main.c" 2> /dev/null; then
  run -- "$work/static"
  check "a static program is refused" "[ $? = 1 ] && grep -q 'is statically linked' '$work/err'"
fi
printf '#!%s\n' "$work/static" > "$work/script" && chmod +x "$work/script"
run -- "$work/script"
check "so is a script for one" "[ $? = 1 ] && grep -q 'is statically linked' '$work/err'"

if [ "$(id -u)" = 0 ]; then
  cp /bin/true "$work/other" && chown 65534 "$work/other" && chmod u+s "$work/other"
  run -- "$work/other"
  check "a set-user-ID program is refused" "[ $? = 1 ] && grep -q 'set-user-ID' '$work/err'"
fi
# A program that wants a libibverbs of another version of rdma-core: the loader names the version.
printf 'void ibv_other(void); int main(void) { ibv_other(); return 0; }' > "$work/uses.c"
printf 'void ibv_other(void) {}' > "$work/other.c"
printf 'IBVERBS_PRIVATE_999 { global: ibv_other; };' > "$work/other.map"
if gcc -shared -fPIC -Wl,-soname,libibverbs.so.1 -Wl,--version-script="$work/other.map" -o "$work/libother.so" "$work/other.c" &&
   gcc -o "$work/uses" "$work/uses.c" "$work/libother.so"; then
  run -- "$work/uses"
  check "another version of libibverbs is named" "[ $? != 0 ] && grep -q IBVERBS_PRIVATE_999 '$work/err'"
fi
run --share-memory --no-share-memory -- true
check "options that exclude each other are refused" "[ $? = 2 ] && grep -q 'exclude each other' '$work/err'"
has_sharing() { "$ndctl" env "$@" | grep -q libndbroker_share_memory; }
check "buffers are shared unless --no-share-memory says otherwise" 'has_sharing && ! has_sharing --no-share-memory'
# A program with a free() of its own must not get memory that only the library can free.
cat > "$work/own.c" << 'END'
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
void __libc_free(void*);
void free(void* memory) { __libc_free(memory); }
int main(int argc, char** argv) {
  void (*begin)(_Bool) = (void (*)(_Bool))dlsym(RTLD_DEFAULT, "ndbroker_share_memory");
  void* memory = NULL;
  begin(argc > 1);
  if (posix_memalign(&memory, 4096, 8192) != 0) return 1;
  free(memory);
  return 0;
}
END
if gcc -rdynamic -o "$work/own" "$work/own.c" 2> "$work/err"; then
  run -- "$work/own"
  check "a program with an allocator of its own keeps it" "[ $? = 0 ] && [ ! -s '$work/err' ]"
  run --share-memory -- "$work/own" all
  check "and hears why the option has no effect" "[ $? = 0 ] && grep -q 'share-memory has no effect' '$work/err'"
fi
# The cost for a preloaded process that uses no RDMA. The count of shared objects is checked. The times depend on the other
# programs of this machine, so the shortest of some starts, taken in turns, is only printed.
mapfile -t variables < <("$ndctl" env)
preload=(env "${variables[@]}")
objects() { "$@" LD_TRACE_LOADED_OBJECTS=1 /bin/true | wc -l; }
more=$(($(objects "${preload[@]}") - $(objects env)))
check "a preloaded process loads at most 5 more shared objects, not $more" "[ $more -gt 0 ] && [ $more -le 5 ]"
plain=999999 preloaded=999999
start() {  # variable of the fastest, command
  local best=$1 begin end; shift
  begin=$(date +%s%N); "$@" /bin/true; end=$(date +%s%N)
  [ $(((end - begin) / 1000)) -ge "${!best}" ] || printf -v "$best" %s $(((end - begin) / 1000))
}
for _ in $(seq 20); do
  start plain env
  start preloaded "${preload[@]}"
done
echo "$more more shared objects; a start takes $plain us, preloaded $preloaded us"
exit $failed
