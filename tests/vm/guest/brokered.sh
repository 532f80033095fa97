# SPDX-License-Identifier: Apache-2.0
# brokered.sh FOLDER: tests with a real broker, in the virtual machine. FOLDER has ndbrokerd, ndctl, broker_pair and
# the library. Each check prints "ok" or "FAIL"; the exit code is the number of failures.
FOLDER=$1
export LD_LIBRARY_PATH=$FOLDER NDBROKER_DIR=/run/ndbroker-vm
FAILED=0
broker() {
  "$FOLDER/ndbrokerd" --dir "$NDBROKER_DIR" >>/tmp/broker.log 2>&1 &
  BROKER=$!
  for _ in $(seq 200); do
    "$FOLDER/ndctl" adapter list 2>/dev/null | grep -q siw0 && return
    sleep 0.1
  done
  cat /tmp/broker.log
}
until_says() { # file text
  for _ in $(seq 300); do grep -q "$2" "$1" 2>/dev/null && return; sleep 0.1; done
}
verdict() { # exit-code name detail
  if [ "$1" = 0 ]; then echo "ok   $2${3:+: $3}"; else echo "FAIL $2${3:+: $3}"; FAILED=$((FAILED + 1)); fi
}

broker
"$FOLDER/ndctl" adapter list
for pair in "rxe0 10.9.0.1" "siw0 10.9.1.1"; do
  set -- $pair
  : > /tmp/server
  timeout 60 "$FOLDER/broker_pair" server "$1" "$2:7001" >/tmp/server 2>&1 & server=$!
  until_says /tmp/server listening
  timeout 30 "$FOLDER/broker_pair" client "$1" "$2:7001" >/tmp/client 2>&1
  client=$?
  wait $server
  client=$((client + $?))
  [ $client = 0 ] || cat /tmp/server
  verdict $client "$1: two applications of one broker" "$(tail -1 /tmp/client)"

  : > /tmp/server
  timeout 60 "$FOLDER/ndctl" ping --adapter "$1" --serve -c 1 "$2:7000" >/tmp/server 2>&1 & server=$!
  until_says /tmp/server listening
  timeout 30 "$FOLDER/ndctl" ping --adapter "$1" -c 20 --size 64 "$2:7000" >/tmp/client 2>&1
  client=$?
  wait $server
  verdict $((client + $?)) "$1: ndctl ping" "$(grep -E 'connect_us|avg_us' /tmp/client | tr -s ' \n' ' ')"

  # The broker is killed between two rounds of messages.
  : > /tmp/server
  timeout 60 "$FOLDER/broker_pair" server "$1" "$2:7002" 100 5 >/tmp/server 2>&1 & server=$!
  until_says /tmp/server listening
  timeout 60 "$FOLDER/broker_pair" client "$1" "$2:7002" 100 5 >/tmp/client 2>&1 & client=$!
  for _ in $(seq 100); do "$FOLDER/ndctl" connection list 2>/dev/null | grep -q 7002 && break; sleep 0.1; done
  sleep 2
  { kill -9 $BROKER; wait $BROKER; } 2>/dev/null
  wait $client
  code=$?
  wait $server
  code=$((code + $?))
  [ $code = 0 ] || cat /tmp/server
  verdict $code "$1: data after kill -9 of the broker" "$(tail -1 /tmp/client)"
  broker
done
kill $BROKER
exit $FAILED
