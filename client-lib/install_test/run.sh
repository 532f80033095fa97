#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Installs the library to a fresh prefix, then builds and runs a consumer with CMake and one with pkg-config.
# usage: run.sh BUILD_DIR CMAKE CXX WORK_DIR
set -eu
build=$1 cmake=$2 cxx=$3 work=$4
source=$(dirname "$(realpath "$0")")
rm -rf "$work"
mkdir -p "$work"
for component in library library_grpc client; do
  "$cmake" --install "$build" --component $component --prefix "$work/prefix"
done > "$work/install.log"

"$cmake" -S "$source" -B "$work/consumer" -DCMAKE_PREFIX_PATH="$work/prefix" -DCMAKE_CXX_COMPILER="$cxx" > "$work/configure.log"
"$cmake" --build "$work/consumer" > "$work/build.log"
"$work/consumer/consumer"
"$work/consumer/consumer_grpc"

PKG_CONFIG_PATH=$(dirname "$(find "$work/prefix" -name ndbroker.pc)")
export PKG_CONFIG_PATH
# shellcheck disable=SC2046
"$cxx" -std=c++20 -Wall -Wextra -Werror "$source/consumer.cc" -o "$work/consumer_pc" $(pkg-config --cflags --libs ndbroker)
LD_LIBRARY_PATH=$(pkg-config --variable=libdir ndbroker) "$work/consumer_pc"

# A program has the carrier only when it asks for it, and keeps it although it refers to nothing in it.
# shellcheck disable=SC2046
"$cxx" -std=c++20 -Wl,--as-needed "$source/consumer.cc" -o "$work/consumer_pc_grpc" $(pkg-config --cflags --libs ndbroker-grpc)
needs() { readelf -d "$1" | grep -q 'NEEDED.*libndbroker_grpc'; }
needs "$work/consumer_pc_grpc"
needs "$work/consumer/consumer_grpc"
if needs "$work/consumer_pc"; then exit 1; fi
for example in ping_pong remote_memory echo_server shared_endpoint; do
  test -f "$(find "$work/prefix" -name $example.cc)"
done
