#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# seeds.sh BIN: the hand-made seeds in the corpus are what fuzz_make_seeds writes. A seed of an earlier format would reach
# only the decoder's refusal.
set -euo pipefail
corpus=$(dirname "$(readlink -f "$0")")/corpus
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$1/fuzz_make_seeds" "$work" > /dev/null
stale=$(cd "$work" && find . -type f ! -exec cmp -s {} "$corpus"/{} \; -print)
[ -z "$stale" ] || { printf 'stale or missing in tests/fuzz/corpus; run fuzz_make_seeds tests/fuzz/corpus:\n%s\n' "$stale"; exit 1; }
