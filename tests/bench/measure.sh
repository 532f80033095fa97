#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs ndperf's whole matrix in interleaved rounds and prints the medians as a Markdown table.
# usage: tests/bench/measure.sh [ROUNDS] [BIN]     (5 rounds, build/release/bin)
set -euo pipefail
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../.."
rounds=${1:-5} bin=${2:-build/release/bin}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

cases=(
  "connect lat 64 500" "connect rate 64 500"
  "send lat 8 20000" "send lat 8 20000 block" "send lat 8 20000 notify" "send lat 4096 20000"
  "send bw 65536 20000" "send bw 1048576 2000" "send rate 8 500000"
  "write lat 8 20000" "write lat 4096 20000" "write bw 65536 20000" "write bw 1048576 2000" "write rate 8 500000"
  "read lat 8 20000" "read lat 8 20000 notify" "read bw 65536 20000" "read bw 1048576 2000"
)
for ((round = 1; round <= rounds; round++)); do
  for case in "${cases[@]}"; do
    read -r op metric size count waiting <<< "$case"
    for transport in local iwarp; do
      "$bin/ndperf" --self --transport "$transport" --op "$op" --metric "$metric" --size "$size" \
        --iterations "$count" "--${waiting:-poll}" --json >> "$scratch/$op-$metric-$size-$waiting-$transport"
    done
  done
done

# The median of one field over the rounds, formatted for reading; "-" where it does not apply.
median() {
  jq -s -r --arg field "$2" 'map(.[$field]) | if any(. == null) then "-" else (sort | .[length / 2 | floor]) |
    if . >= 1000 then round elif . >= 10 then (. * 10 | round / 10) else (. * 1000 | round / 1000) end end' "$1"
}
echo "| operation | bytes | transport | p50 us | p99 us | per second | GB/s |"
echo "|---|--:|---|--:|--:|--:|--:|"
for case in "${cases[@]}"; do
  read -r op metric size count waiting <<< "$case"
  for transport in local iwarp; do
    file=$scratch/$op-$metric-$size-$waiting-$transport
    printf '| %s %s | %s | %s | %s | %s | %s | %s |\n' "$op" "$metric${waiting:+, $waiting}" "$size" "$transport" \
      "$(median "$file" p50_us)" "$(median "$file" p99_us)" "$(median "$file" per_s)" \
      "$(median "$file" gbytes_per_s)"
  done
done
