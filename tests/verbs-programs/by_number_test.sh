#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Queue pairs connected by number: the cases of by_number_test.cc on a broker, and what the broker and its policy say.
# usage: by_number_test.sh BUILD_DIR
# In a network namespace of its own where the system has them: all brokers of a namespace have one TCP port.
set -u
if [ -z "${NDBROKER_VERBS_ISOLATED:-}" ]; then
  for how in --net '--user --map-root-user --net'; do
    unshare $how true 2> /dev/null && NDBROKER_VERBS_ISOLATED=1 exec unshare $how "$(readlink -f "$0")" "$1"
  done
else
  ip link set lo up
fi
build=$1
ndctl=$build/bin/ndctl test=$build/bin/verbs_by_number_test
work=$(mktemp -d)
pids=()
cleanup() { for pid in "${pids[@]}"; do kill "$pid" 2> /dev/null; done; wait; rm -rf "$work"; }
trap cleanup EXIT
failed=0
check() { if ! eval "$2"; then echo "FAIL: $1"; tail -n 20 "$work/out" "$work/err" 2> /dev/null; failed=1; fi; }

start_broker() {  # NAME, then options; in the place of the former broker, which has the TCP port
  [ ${#pids[@]} = 0 ] || { kill "${pids[-1]}"; wait "${pids[-1]}"; unset "pids[-1]"; }
  mkdir "$work/$1"
  export NDBROKER_DIR=$work/$1
  start_again "${@:2}"
}
last_processor=$(taskset -cp $$ | sed 's/.*[ ,-]//')
start_again() {
  taskset -c "$last_processor" "$build/bin/ndbrokerd" --dir "$NDBROKER_DIR" --adapter-address 127.0.0.1 "$@" > "$NDBROKER_DIR.log" 2>&1 & pids+=($!)
  for _ in $(seq 100); do grep -qs ^READY "$NDBROKER_DIR.log" && return; sleep 0.1; done
  echo "FAIL: the broker did not start"; cat "$NDBROKER_DIR.log"; exit 1
}
run() { timeout "${NDBROKER_VERBS_PATIENCE:-120}" "$ndctl" run "$@" > "$work/out" 2> "$work/err"; }

start_broker plain
timeout "${NDBROKER_VERBS_PATIENCE:-120}" "$ndctl" run -- "$test" || { echo "FAIL: the cases"; failed=1; }
left() { "$ndctl" -o csv connection list | grep -c 127.0.0.1; }
for _ in $(seq 100); do [ "$(left)" = 0 ] && break; sleep 0.1; done
check "nothing is left at the broker" '[ "$(left)" = 0 ] && ! "$ndctl" -o csv port list | grep 127.0.0.1'

# Connections, and the wait for a peer, outlive the broker.
restart() { kill -9 "${pids[-1]}"; wait "${pids[-1]}" 2> /dev/null; unset "pids[-1]"; start_again; }
NDBROKER_TEST_RESTART=$work run -- "$test" --gtest_filter=ByNumber.WaitForThePeerOutlivesTheBroker & waiter=$!
for _ in $(seq 100); do [ -e "$work/please" ] && break; sleep 0.1; done
restart && touch "$work/done"
wait $waiter
check "the wait for a peer outlives the broker" '[ $? = 0 ] && ! grep -q SKIPPED "$work/out"'
if command -v ib_send_bw > /dev/null; then
  timeout "${NDBROKER_VERBS_PATIENCE:-60}" "$ndctl" run -- ib_send_bw -D 3 -q 2 -p 18778 > "$work/server" 2>&1 & server=$!
  sleep 1
  timeout "${NDBROKER_VERBS_PATIENCE:-60}" "$ndctl" run -- ib_send_bw -D 3 -q 2 -p 18778 127.0.0.1 > "$work/out" 2> "$work/err" & client=$!
  for _ in $(seq 400); do "$ndctl" -o csv connection list | grep -q ",Connected,127.0.0.1:" && break; sleep 0.05; done
  sleep 0.5
  restart
  wait $client
  check "the client survives a restart of the broker" '[ $? = 0 ]'
  wait $server
  check "the server survives a restart of the broker" '[ $? = 0 ]'
fi

# The numbers that a program prints name the ports that the administrator sees, beside the name of the program.
run -- ibv_rc_pingpong -g 0 -p 18777 -n 100 > /dev/null & server=$!
sleep 1
timeout "${NDBROKER_VERBS_PATIENCE:-60}" "$ndctl" run -- ibv_rc_pingpong -g 0 -p 18777 -n 100 127.0.0.1 > "$work/client" 2>&1
wait $server
check "the history has the name of the program" '"$ndctl" -o csv history | grep -q ",ibv_rc_pingpong,"'
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
