#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The library that applications load: at most 12 shared objects come with it, and none of gRPC, protobuf or abseil.
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
echo "$count shared objects"
