#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Compiles each header alone: a header that needs another include before it is a finding. Part of lint, not of
# ctest: it takes some minutes of processor time.
# usage: tests/headers.sh [HEADER...]   needs a built build/release (for the generated headers)
set -euo pipefail
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/.."
build=build/release
[ -e "$build/proto/gen/ndbroker/v1/admin.pb.h" ] || { echo "build first: ./run.sh" >&2; exit 2; }
headers=("$@")
[ $# -gt 0 ] || mapfile -t headers < <(git ls-files '*.h' | grep -v '_win\.h$')
check() {
  printf '#include "%s"\n' "$1" | g++ -std=c++20 -fsyntax-only -Wall -Wextra -Werror -I. -Ibase/include \
    -Iclient-lib/include -isystem "$2/proto/gen" -I"$2/cli/gen" -x c++ - ||
    { echo "$1: does not compile alone"; exit 1; }
}
export -f check
printf '%s\n' "${headers[@]}" |
  xargs -P "${NDBROKER_JOBS:-$(nproc)}" -I{} bash -c 'check "$@"' check {} "$build" || exit 1
echo "each of ${#headers[@]} headers compiles alone"
