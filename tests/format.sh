#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Every C++ file is formatted as .clang-format says, by clang-format 14: another version formats differently.
# Exit 77 when clang-format-14 is not installed. usage: tests/format.sh [--fix]
set -euo pipefail
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/.."
command -v clang-format-14 > /dev/null || { echo "clang-format-14 is not installed (Debian: clang-format-14)"; exit 77; }
mode=(--dry-run -Werror)
[ "${1-}" != --fix ] || mode=(-i)
if find . -path ./build -prune -o -path './.*' -prune -o \( -name '*.h' -o -name '*.cc' \) -print0 |
  xargs -0 -n 50 -P "${NDBROKER_JOBS:-2}" clang-format-14 "${mode[@]}"; then
  echo "every file is formatted"
else
  echo "not formatted; tests/format.sh --fix does it" >&2
  exit 1
fi
