#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Queue pairs connected by number: the cases of by_number_test.cc on a broker, and what the broker and its policy say.
# usage: by_number_test.sh BUILD_DIR
set -u
build=$1
ndctl=$build/bin/ndctl test=$build/bin/verbs_by_number_test
work=$(mktemp -d)
pids=()
cleanup() { for pid in "${pids[@]}"; do kill "$pid" 2> /dev/null; done; wait; rm -rf "$work"; }
trap cleanup EXIT
failed=0
check() { if ! eval "$2"; then echo "FAIL: $1"; tail -20 "$work/out" "$work/err" 2> /dev/null; failed=1; fi; }

start_broker() {  # NAME, then options; in the place of the former broker, which has the TCP port
  [ ${#pids[@]} = 0 ] || { kill "${pids[-1]}"; wait "${pids[-1]}"; }
  mkdir "$work/$1"
  "$build/bin/ndbrokerd" --dir "$work/$1" --adapter-address 127.0.0.1 "${@:2}" > "$work/$1.log" 2>&1 & pids+=($!)
  for _ in $(seq 100); do [ -S "$work/$1/client/lane.sock" ] && break; sleep 0.1; done
  [ -S "$work/$1/client/lane.sock" ] || { echo "FAIL: the broker $1 did not start"; cat "$work/$1.log"; exit 1; }
  export NDBROKER_DIR=$work/$1
}
run() { timeout 120 "$ndctl" run "$@" > "$work/out" 2> "$work/err"; }

start_broker plain
timeout 120 "$ndctl" run -- "$test" || { echo "FAIL: the cases"; failed=1; }
left() { "$ndctl" -o csv connection list | grep -c 127.0.0.1; }
for _ in $(seq 100); do [ "$(left)" = 0 ] && break; sleep 0.1; done
check "nothing is left at the broker" '[ "$(left)" = 0 ] && ! "$ndctl" -o csv port list | grep 127.0.0.1'

# The numbers that a program prints name the ports that the administrator sees.
run -- ibv_rc_pingpong -g 0 -p 18777 -n 100 > /dev/null & server=$!
sleep 1
timeout 20 "$ndctl" run -- ibv_rc_pingpong -g 0 -p 18777 -n 100 127.0.0.1 > "$work/client" 2>&1
wait $server
for number in $(sed -n 's/.* QPN \(0x[0-9a-f]*\),.*/\1/p' "$work/client"); do
  check "the history has the port of $number" '"$ndctl" -o csv history | grep -q "127.0.0.1:$((number & 0xffff))"'
done

run --as iwarp -- "$test" --gtest_filter=ByNumber.DataFlowsBothWays
check "devices of iWARP refuse, and say so" '[ $? != 0 ] && grep -q "which devices of iWARP do not" "$work/err"'

printf '[[rule]]\nname = "no-listening"\nlisten = []\n' > "$work/listen.toml"
start_broker listen --config "$work/listen.toml"
run -- "$test" --gtest_filter=ByNumber.DataFlowsBothWays
check "policy may forbid to listen" '[ $? != 0 ] && grep -q "no connection by number from 127.0.0.1.*no-listening" "$work/err"'

printf '[[rule]]\nname = "no-connecting"\nconnect = []\n' > "$work/connect.toml"
start_broker connect --config "$work/connect.toml"
run -- "$test" --gtest_filter=ByNumber.DataFlowsBothWays
check "policy may forbid to connect" '[ $? != 0 ] && grep -q "no connection by number with 127.0.0.1.*no-connecting" "$work/err"'

printf '[[rule]]\nname = "no-ports"\nquota = { ports = 0 }\n' > "$work/ports.toml"
start_broker ports --config "$work/ports.toml"
run -- "$test" --gtest_filter=ByNumber.DataFlowsBothWays
check "so may a quota of ports" '[ $? != 0 ] && grep -q "cannot be connected by number with 127.0.0.1.*ports" "$work/err"'
exit $failed
