#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Measures ndbroker, rival libraries and the machine itself in interleaved rounds on pinned CPUs, and prints one table.
#   tests/bench/run.sh --quick               under five minutes on a quiet machine
#   tests/bench/run.sh --json run.json       the full run, stored
#   tests/bench/run.sh --check run.json      fails if a ratio is worse than in the stored run by more than the noise
#   tests/bench/run.sh --quick --document    also writes table and plots into docs/
#   tests/bench/run.sh --from run.json ...   takes a stored run instead of measuring
# --help has the other options. Installs what is missing (deploy/packages-bench.txt) and builds.
set -euo pipefail
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../.."
source deploy/setup.sh

# compile_rivals: small programs for rival libraries. A library that is not installed leaves its program out.
compile_rivals() {
  local name source flags
  mkdir -p "$build/rivals"
  for name in ucx fabric iceoryx grpc; do
    case $name in
      ucx) flags="-lucp -lucs" ;;
      fabric) flags="-lfabric" ;;
      iceoryx) flags="-I$(compgen -G '/usr/include/iceoryx/v*' | tail -1) -liceoryx_posh -liceoryx_hoofs -liceoryx_platform -lpthread" ;;
      grpc) flags=$(pkg-config --cflags --libs grpc++) ;;
    esac
    source=tests/bench/rivals/$name.cc
    if [ "$build/rivals/$name" -nt "$source" ] && [ "$build/rivals/$name" -nt tests/bench/floors/tools.cc ]; then
      continue
    fi
    say "compiling $source"
    # shellcheck disable=SC2086
    g++ -std=c++20 -O2 -I. "$source" tests/bench/floors/tools.cc -o "$build/rivals/$name" $flags ||
      say "$name is left out"
  done
}

measures=1
for argument in "$@"; do
  case $argument in
    -h | --help | --from | --from=*) measures= ;;
  esac
done
choose_build
if [ -n "$measures" ]; then
  install_packages deploy/packages.txt deploy/packages-bench.txt
  build_targets ON ndperf ndbrokerd ndctl nd_floors nd_many many_bench
  compile_rivals
fi
exec python3 tests/bench/suite/main.py --binaries "$build/bin" --rivals "$build/rivals" "$@"
