#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Verifies broker.pml with SPIN and refutes each of its broken variants; exit 0 when both hold.
# usage: tests/model/run.sh [--large]   --large: more peers and crashes than fit a minute
set -euo pipefail
model=$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/broker.pml
size=(-DNREQ=3 -DCRASHES=1)
[ "${1:-}" != --large ] || size=(-DNREQ=4 -DCRASHES=2)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

# build NAME DEFINE...: the verifiers of one variant; one for assertions and deadlocks, one for the claims.
build() {
  mkdir -p "$1"
  (cd "$1" && spin -a "${@:2}" "$model" > spin.log 2>&1 || { cat spin.log >&2; exit 1; }
    gcc -O1 -DVECTORSZ=2048 -DCOLLAPSE -DSAFETY -DNOCLAIM -o safety pan.c 2> gcc.log || { cat gcc.log >&2; exit 1; }
    gcc -O1 -DVECTORSZ=2048 -DCOLLAPSE -DNFAIR=3 -o claims pan.c 2> gcc.log || { cat gcc.log >&2; exit 1; })
}
# check NAME PROPERTY: prints "errors states", the property being safety or the name of a claim.
check() {
  local options=(-m2000000 -n)
  case $2 in
    safety) out=$(cd "$1" && ./safety "${options[@]}") ;;
    once | clean) out=$(cd "$1" && ./claims -a "${options[@]}" -N "$2") ;;
    *) out=$(cd "$1" && ./claims -a -f "${options[@]}" -N "$2") ;;
  esac
  if grep -q 'max search depth too small' <<< "$out"; then
    echo "$1 $2: the search was cut off" >&2
    exit 1
  fi
  awk '/errors:/ { errors = $NF } /states, stored/ { states = $1 } END { print errors, states }' <<< "$out"
}

failures=0
total=0
printf '%-22s %-9s %-9s %s\n' VARIANT PROPERTY VERDICT STATES
build correct "${size[@]}"
for property in safety once clean bounded freed; do
  read -r errors states < <(check correct "$property")
  verdict=verified
  [ "$errors" = 0 ] || { verdict=VIOLATED; failures=$((failures + 1)); }
  total=$((total + ${states%.*}))
  printf '%-22s %-9s %-9s %s\n' correct "$property" "$verdict" "$states"
done
# Each broken variant and the property that must fail for it.
while read -r bug property; do
  build "$bug" "${size[@]}" -D"$bug"
  read -r errors states < <(check "$bug" "$property")
  verdict=refuted
  [ "$errors" != 0 ] || { verdict=UNNOTICED; failures=$((failures + 1)); }
  printf '%-22s %-9s %-9s %s\n' "$bug" "$property" "$verdict" "$states"
done << 'END'
BUG_NO_GENERATION safety
BUG_SAME_EPOCH safety
BUG_EPIPE clean
BUG_KEEP_DUPLICATE clean
BUG_NO_RECLAIM freed
BUG_NO_ACK_TIMER bounded
BUG_NO_JOURNAL safety
BUG_REATTACH_TWICE once
END
echo "$total states of the correct model, $failures surprises"
exit $((failures > 0))
