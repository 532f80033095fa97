# SPDX-License-Identifier: Apache-2.0
# faults.sh FOLDER: in the virtual machine, checks that ndctl, the log and the API name each misconfiguration with its
# remedy. One line for each; the exit code is the number of failures.
FOLDER=$1
export LD_LIBRARY_PATH=$FOLDER NDBROKER_DIR=/run/ndbroker-faults
FAILED=0 NOBODY="setpriv --reuid 65534 --regid 65534 --clear-groups"
broker() { # [command before it] ; $CONFIG is its configuration
  printf '%s\n' "${CONFIG:-}" > /tmp/faults.toml
  chmod 644 /tmp/faults.toml
  rm -rf "$NDBROKER_DIR"; install -d -m 755 ${1:+-o 65534} "$NDBROKER_DIR"
  $* "$FOLDER/ndbrokerd" --dir "$NDBROKER_DIR" --config /tmp/faults.toml >/tmp/faults.log 2>&1 & BROKER=$!
  for _ in $(seq 200); do "$FOLDER/ndctl" adapter list >/dev/null 2>&1 && return; sleep 0.1; done
  cat /tmp/faults.log
}
stop() { kill $BROKER; wait $BROKER 2>/dev/null; }
says() { # what text pattern...
  local what=$1 text=$2 pattern missing=
  shift 2
  for pattern in "$@"; do grep -qi -- "$pattern" <<< "$text" || missing+=" '$pattern'"; done
  if [ -z "$missing" ]; then echo "ok   $what"; return; fi
  echo "FAIL $what: lacks$missing in"; sed 's/^/       /' <<< "$text"; FAILED=$((FAILED + 1))
}

CONFIG='[verbs]
devices = ["rxe0", "rxe9"]' broker
says "a device that is not there, ndctl adapter list" "$("$FOLDER/ndctl" adapter list)" "rxe9 .*unavailable" "is not there" "rdma link"
says "a device that is not there, ndctl adapter show" "$("$FOLDER/ndctl" adapter show rxe9)" "problem.*is not there"
says "a device that is not there, the log" "$(cat /tmp/faults.log)" "rxe9.*is not there"
says "a device that is not there, the API" "$("$FOLDER/broker_pair" client rxe9 10.9.0.1:7001 2>&1)" DEVICE_NOT_READY "is not there" ib_uverbs
ip link add fd0 type dummy; ip addr add 10.9.7.1/24 dev fd0; ip link set fd0 up
rdma link add rxe9 type rxe netdev fd0
for _ in $(seq 100); do "$FOLDER/ndctl" adapter list | grep -q "rxe9 .*enabled" && break; sleep 0.1; done
says "... and then it comes" "$("$FOLDER/ndctl" adapter list)" "rxe9 .*enabled"
rdma link delete rxe9; ip link delete fd0
for _ in $(seq 100); do "$FOLDER/ndctl" adapter list | grep -q "rxe9 .*unavailable" && break; sleep 0.1; done
says "... and goes" "$("$FOLDER/ndctl" adapter list)" "rxe9 .*unavailable"
stop

chmod 600 /dev/infiniband/*
CONFIG= broker $NOBODY
says "a broker without rights to the device node" "$("$FOLDER/ndctl" adapter show rxe0; cat /tmp/faults.log)" \
  "unavailable" "may not open the RDMA device rxe0" "/dev/infiniband" "group rdma"
stop
CONFIG= broker
says "an application without rights to the device node" \
  "$($NOBODY env LD_LIBRARY_PATH="$FOLDER" "$FOLDER/broker_pair" client rxe0 10.9.0.1:7001 2>&1)" \
  ACCESS_DENIED "may not open the RDMA device rxe0" "/dev/infiniband"
chmod 666 /dev/infiniband/*
says "too little memory that may be locked" \
  "$(ulimit -l 8; $NOBODY env LD_LIBRARY_PATH="$FOLDER" "$FOLDER/ndctl" ping --adapter rxe0 -c 1 --size 65536 10.9.0.1:7001 2>&1)" \
  INSUFFICIENT_RESOURCES "ulimit -l" LimitMEMLOCK
stop
exit $FAILED
