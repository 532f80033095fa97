# SPDX-License-Identifier: Apache-2.0
# foreign.sh FOLDER: in the virtual machine, rdmacm-utils' programs against applications of a real broker, each as
# client and as server, on rxe and siw. Prints one line for each; the exit code is the number of failures.
FOLDER=$1
export LD_LIBRARY_PATH=$FOLDER NDBROKER_DIR=/run/ndbroker-foreign
FAILED=0 PORT=7300
"$FOLDER/ndbrokerd" --dir "$NDBROKER_DIR" >/tmp/foreign.log 2>&1 & BROKER=$!
for _ in $(seq 200); do "$FOLDER/ndctl" adapter list 2>/dev/null | grep -q siw0 && break; sleep 0.1; done
until_says() { for _ in $(seq 300); do grep -qs "$2" "$1" && return; sleep 0.1; done; }
# An rdma_cm listener is not a socket, so ss does not list it.
until_rdma_listens() { # port; the kernel lists who listens, on RoCE by the service, on iWARP as a TCP port
  for _ in $(seq 100); do
    rdma resource show cm_id 2>/dev/null | grep -q "state LISTEN.*:$1 " && return
    sleep 0.1
  done
}
verdict() { # codes adapter what log
  if [ "$1" = "0 0" ]; then echo "ok   $2: $3"; return; fi
  echo "FAIL $2: $3 (exit codes $1)"; sed 's/^/       /' "$4"; FAILED=$((FAILED + 1))
}
for pair in "rxe0 10.9.0.1" "siw0 10.9.1.1"; do
  set -- $pair
  for program in rping ucmatose; do
    PORT=$((PORT + 1)); : > /tmp/ours
    timeout 60 "$FOLDER/foreign_peer" $program server "$1" "$2:$PORT" > /tmp/ours 2>&1 & ours=$!
    until_says /tmp/ours listening
    case $program in
      rping) timeout 60 rping -c -a "$2" -p $PORT -C 5 -S 64 -V > /tmp/theirs 2>&1 ;;
      ucmatose) timeout 60 ucmatose -s "$2" -p $PORT > /tmp/theirs 2>&1 ;;
    esac
    theirs=$?
    wait $ours; verdict "$theirs $?" "$1" "$program as client of our listener" /tmp/ours

    PORT=$((PORT + 1))
    case $program in
      rping) timeout 60 rping -s -a "$2" -p $PORT -C 5 -S 64 -V > /tmp/theirs 2>&1 & ;;
      ucmatose) timeout 60 ucmatose -b "$2" -p $PORT > /tmp/theirs 2>&1 & ;;
    esac
    theirs=$!
    until_rdma_listens $PORT
    timeout 60 "$FOLDER/foreign_peer" $program client "$1" "$2:$PORT" > /tmp/ours 2>&1; ours=$?
    wait $theirs; verdict "$? $ours" "$1" "$program as server, our connector" /tmp/ours
  done
done
kill $BROKER
exit $FAILED
