#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# check.sh [--built] FOLDER: checks every package in it: programs and libraries are hardened, no file contains the path of a
# build directory, the bill of materials describes them, and lintian reports no error. Prints one line for each error; exits 1
# when there is one. --built: packages of build.sh --built, whose programs are not for users: the first two are left out.
set -euo pipefail
here=$(dirname "$(readlink -f "$0")")
built=
[ "$1" != --built ] || { built=1 && shift; }
folder=$(realpath "$1")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mistakes=0
wrong() {
  echo "$*" >&2
  mistakes=$((mistakes + 1))
}

# hardened FILE: as hardening-check of devscripts, with readelf alone.
hardened() {
  local name=${1#"$work"/} header dynamic symbols
  header=$(readelf -W -h -l "$1")
  dynamic=$(readelf -W -d "$1")
  symbols=$(readelf -W --dyn-syms "$1")
  grep -q 'Type: *DYN' <<< "$header" || wrong "$name: no position-independent code"
  grep -q GNU_RELRO <<< "$header" || wrong "$name: no read-only relocations"
  grep -qE 'BIND_NOW|FLAGS.* NOW' <<< "$dynamic" || wrong "$name: symbols are not bound at its start"
  grep -E 'GNU_STACK' <<< "$header" | grep -q 'RWE' && wrong "$name: an executable stack"
  grep -qE 'RPATH|RUNPATH' <<< "$dynamic" && wrong "$name: a search path for libraries"
  grep -q __stack_chk_fail <<< "$symbols" || wrong "$name: no guards in stack frames"
  # A file that uses none of these has nothing to check.
  if ! grep -qE '_chk@' <<< "$symbols" && grep -qE ' (v?s?n?printf|v?fprintf|strn?cpy|strn?cat|read|recv|recvfrom|pread|fgets|fread|poll)@' <<< "$symbols"; then
    wrong "$name: no checked library functions"
  fi
  return 0
}

check_programs() {
  local deb root file
  for deb in "$folder"/*.deb; do
    root=$work/$(basename "$deb" .deb)
    dpkg-deb -x "$deb" "$root"
    while IFS= read -r -d '' file; do
      if head -c 4 "$file" | grep -q ELF; then hardened "$file"; fi
    done < <(find "$root" -type f -print0)
    if grep -rlaF -- "$(pwd)/" "$root"; then wrong "$(basename "$deb"): the files above name the build directory"; fi
  done
}

[ -n "$built" ] || check_programs
"$here/sbom_check.py" "$folder" || mistakes=$((mistakes + 1))
[ "$mistakes" -eq 0 ] || exit 1
if command -v lintian > /dev/null; then
  lintian --no-cfg --allow-root --display-level error --fail-on error "$folder"/*.deb || wrong "lintian found errors"
else
  wrong "lintian is missing (Debian package lintian)"
fi

[ "$mistakes" -eq 0 ] || exit 1
echo "$(find "$folder" -name '*.deb' | wc -l) packages: bill of materials, lintian without errors$([ -n "$built" ] || echo ", hardened, no path of the build")"
