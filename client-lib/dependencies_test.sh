#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The library that applications load: at most 12 shared objects come with it, and none of gRPC, protobuf or abseil.
# Prints their number and the time that loading them takes: what a start of /bin/true takes with the library
# preloaded, less what it takes without. The time is not judged, because other processes use the machine.
# usage: dependencies_test.sh LIBNDBROKER LIBNDBROKER_GRPC
set -eu
library=$1 carrier=$2

# The list includes the loader and the kernel's vDSO.
list=$(ldd "$library")
count=$(echo "$list" | wc -l)
if [ "$count" -gt 12 ]; then
  echo "$library loads $count shared objects, more than 12:" >&2
  echo "$list" >&2
  exit 1
fi
if echo "$list" | grep -E 'grpc|protobuf|absl|spdlog|toml|prometheus'; then
  echo "$library must not load these" >&2
  exit 1
fi
# Proves that ldd has listed the dependencies.
echo "$list" | grep -q 'libstdc++'
ldd "$carrier" | grep -q 'libgrpc++'

# start_us [NAME=VALUE]...: the median of 101 starts in this environment, and the mean of their processor time.
start_us() {
  local TIMEFORMAT='%U %S' begin took
  took=$({ time for _ in {1..101}; do
    begin=${EPOCHREALTIME/./}
    env -i "$@" /bin/true
    echo $((${EPOCHREALTIME/./} - begin)) >&3
  done; } 3> "$work" 2>&1)
  echo "$(sort -n "$work" | sed -n 51p) $(echo "$took" | awk '{ printf "%d", ($1 + $2) * 1e6 / 101 }')"
}
# A library with a sanitizer cannot be preloaded.
if LD_PRELOAD=$library /bin/true 2> /dev/null; then
  work=$(mktemp)
  trap 'rm -f "$work"' EXIT
  read -r without_wall without_cpu <<< "$(start_us ND_NOTHING=1)"
  read -r with_wall with_cpu <<< "$(start_us LD_BIND_NOW=1 LD_PRELOAD="$library")"
  echo "$count shared objects, loaded in $((with_wall - without_wall)) us, $((with_cpu - without_cpu)) us of the processor"
else
  echo "$count shared objects"
fi
