#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# libfabric's own tests (fabtests) over the providers verbs and verbs;ofi_rxm, on one broker and over two. Debian does not
# package them: the caller has their source, of the version of the installed libfabric, for instance of a checkout of
# https://github.com/ofiwg/libfabric. They are compiled here, without their configure script.
# usage: fabtests.sh BUILD_DIR FABTESTS_DIR [NAME ...]    NAME: as printed; default: the lists functional, short and unit of
#   fabtests' scripts/runfabtests.sh, without those that fabtests excludes for the provider (test_configs)
# Needs gcc and libfabric-dev. A test that says that libfabric does not offer its feature (ENODATA, ENOSYS) is no failure.
set -u
build=$(cd "$1" && pwd) source=$(cd "$2" && pwd) || exit 2
shift 2
here=$(cd "$(dirname "$0")" && pwd)
[ -e "$source/scripts/runfabtests.sh" ] || { echo "$source has no scripts/runfabtests.sh: name the folder fabtests of libfabric's source" >&2; exit 2; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

flags=(-w -O1 -D_GNU_SOURCE -DHAVE_CONFIG_H -DCONFIG_PATH='"/"' -I"$work" -I"$source/include" -I"$source/benchmarks")
printf '#define HAVE___INT128 1\n#define PACKAGE_VERSION "%s"\n' "$(fi_info --version | sed -n 's/^libfabric: //p')" > "$work/config.h"
compile() { gcc "${flags[@]}" "$@" || { echo "cannot compile fabtests of $source" >&2; exit 2; }; }
for file in "$source"/common/{shared,hmem,hmem_cuda,hmem_rocr,hmem_ze,hmem_neuron}.c; do
  compile -c "$file" -o "$work/$(basename "$file").o"
done
program_of() {  # NAME: compiles fi_NAME once
  local folder
  local -a more=()
  for folder in functional benchmarks unit; do
    [ -e "$source/$folder/$1.c" ] || continue
    [ $folder = benchmarks ] && more=("$source/benchmarks/benchmark_shared.c")
    [ $folder = unit ] && more=("$source/unit/common.c")
    [ -x "$work/fi_$1" ] || compile "$source/$folder/$1.c" "${more[@]}" "$work"/*.c.o -o "$work/fi_$1" -lfabric -lpthread -lm
    return
  done
  echo "$source has no test $1" >&2; exit 2
}

. <(sed -n '/^\(functional\|short\|unit\)_tests=(/,/^)/p' "$source/scripts/runfabtests.sh")
excluded() {  # COMMAND, file of regular expressions
  local pattern
  while read -r pattern; do
    case $pattern in ''|'#'*) continue;; esac
    [[ $1 =~ $pattern ]] && return 0
  done < "$2"
  return 1
}
list() {  # PROVIDER, file of exclusions
  local command name row
  for command in "${functional_tests[@]}" "${short_tests[@]}" "${unit_tests[@]}"; do
    excluded "$command" "$2" && continue
    name=${command%% *} name=${name#fi_}
    program_of "$name"
    row="${1##*;}:${command// /_}"
    command="$work/$command -p $1" command=${command//SERVER_ADDR/@C} command=${command//GOOD_ADDR/@A}
    case " ${unit_tests[*]} " in
      *" fi_$name "*) echo "$row | slow | roce | stays:sleep 100 | $command";;
      *) echo "$row | slow | roce | $command -s @A | $command -s @C @A";;
    esac
  done
}
list verbs "$source/test_configs/verbs/verbs.exclude" > "$work/programs.txt"
list 'verbs;ofi_rxm' "$source/test_configs/ofi_rxm/ofi_rxm.exclude" >> "$work/programs.txt"

names=("$@")
[ $# != 0 ] || mapfile -t names < <(sed 's/ *|.*//' "$work/programs.txt")
NDBROKER_VERBS_PROGRAMS=$work/programs.txt "$here/run.sh" "$build" "${names[@]}" 2>&1 |
  sed -u 's/^FAIL \(.*\): client, server: \(61\|38\) \(61\|38\|0\)$/-    \1: not offered by libfabric/' | tee "$work/log"
echo "$(grep -c '^ok ' "$work/log") passed, $(grep -c '^-  ' "$work/log") not offered, $(grep -c '^FAIL ' "$work/log") failed"
! grep -q '^FAIL ' "$work/log"
