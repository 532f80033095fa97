#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Format, headers that compile alone, clang-tidy (.clang-tidy) and cppcheck over every source file that is built; exit
# 0: no finding. With files only clang-tidy and cppcheck, of those files.
# usage: tests/lint.sh [FILE...]   needs clang-format-14, clang-tidy-14, cppcheck and a built build/release
set -euo pipefail
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/.."
build=build/release
# In a build of the scripts (NDBROKER_UNITY) the commands name no file of the tree.
grep -qs '/core/broker\.cc"' "$build/compile_commands.json" || { echo "configure first: cmake --preset release" >&2; exit 2; }
jobs=${NDBROKER_JOBS:-$(nproc)}
if [ $# -gt 0 ]; then
  files=("$@")
else
  mapfile -t files < <(sed -n 's/^ *"file": "\(.*\)",\{0,1\}$/\1/p' "$build/compile_commands.json" | grep -v "/$build/" | sort -u)
fi
failed=0
if [ $# -eq 0 ]; then
  tests/format.sh || failed=1
  tests/headers.sh || failed=1
fi
tests/tidy.py "$build" "$jobs" "${files[@]}" || failed=1
# cppcheck does not read the headers of libraries, and unknown names of theirs are no finding.
cppcheck --quiet --error-exitcode=1 --std=c++20 --language=c++ --enable=warning,performance,portability --inline-suppr \
  --suppress=missingIncludeSystem --suppress='*:/usr/*' --suppress=internalAstError --suppress=syntaxError:*_test.cc \
  --suppress=cppcheckError --suppressions-list=tests/cppcheck.supp \
  -I . -I base/include -I client-lib/include -j "$jobs" "${files[@]#"$PWD/"}" || failed=1
echo "linted ${#files[@]} files: $([ $failed -eq 0 ] && echo no finding || echo findings above)"
exit "$failed"
