# SPDX-License-Identifier: Apache-2.0
# changes.sh FOLDER: in the virtual machine, checks the applications of a real broker while addresses come and go, a
# port goes down and up, and at last the device is removed. Uses devices of its own, named "hot".
# Each check prints "ok" or "FAIL"; the exit code is the number of failures.
FOLDER=$1
export LD_LIBRARY_PATH=$FOLDER NDBROKER_DIR=/run/ndbroker-changes
FAILED=0
"$FOLDER/ndbrokerd" --dir "$NDBROKER_DIR" >/tmp/changes.log 2>&1 & BROKER=$!
until_true() { for _ in $(seq 200); do eval "$1" && return; sleep 0.1; done; return 1; }
verdict() { # exit-code name detail
  if [ "$1" = 0 ]; then echo "ok   $2${3:+: $3}"; else echo "FAIL $2${3:+: $3}"; FAILED=$((FAILED + 1)); fi
}
addresses() { "$FOLDER/ndctl" adapter list -o json | jq -r ".items[] | select(.name == \"$1\") | .addresses | join(\" \")"; }
until_addresses() { until_true "[ \"\$(addresses $1)\" = \"$2\" ]"; verdict $? "$1: adapter list shows \"$2\"" "$(addresses "$1")"; }
pair() { # adapter address:port seconds; leaves $server and $client, which are connected if there are seconds
  : > /tmp/server
  timeout 120 "$FOLDER/broker_pair" server "$1" "$2" 50 "$3" >/tmp/server 2>&1 & server=$!
  until_true 'grep -q listening /tmp/server'
  timeout 120 "$FOLDER/broker_pair" client "$1" "$2" 50 "$3" >/tmp/client 2>&1 & client=$!
  [ "$3" = 0 ] || until_true "[ \"\$(\"$FOLDER/ndctl\" connection list -o json | jq '[.items[] | select(.state == \"Connected\")] | length')\" = 2 ]"
}
until_true '"$FOLDER/ndctl" adapter list 2>/dev/null | grep -q siw0'
for kind in rxe siw; do
  name=${kind}hot net=${kind}d7 subnet=$([ $kind = rxe ] && echo 10.9.6 || echo 10.9.7)
  plug() { rdma link add $name type $kind netdev $net; }
  ip link add $net type dummy && ip addr add $subnet.1/24 dev $net && ip link set $net up && plug
  until_addresses $name $subnet.1

  pair $name $subnet.1:7001 6
  ip addr add $subnet.2/24 dev $net
  until_addresses $name "$subnet.1 $subnet.2"
  ip addr del $subnet.2/24 dev $net
  until_addresses $name $subnet.1
  wait $client; code=$?; wait $server; code=$((code + $?))
  [ $code = 0 ] || cat /tmp/server
  verdict $code "$name: connected while an address came and went" "$(tail -1 /tmp/client)"

  pair $name $subnet.1:7002 6
  ip link set $net down
  until_addresses $name ""
  ip link set $net up
  until_addresses $name $subnet.1
  wait $client; code=$?; wait $server; code=$((code + $?))
  # siw itself ends every connection of a port that goes down (its netdev_down work); rxe retransmits.
  [ $kind = siw ] && { grep -q "CANCELED\|CONNECTION_INVALID" /tmp/client && grep -q CANCELED /tmp/server; code=$?; }
  [ $code = 0 ] || cat /tmp/server
  verdict $code "$name: $([ $kind = siw ] && echo ended by || echo outlives) a port that goes down" "$(tail -1 /tmp/client)"

  pair $name $subnet.1:7003 20
  timeout 120 "$FOLDER/broker_pair" server $name $subnet.1:7004 >/tmp/waiting 2>&1 & waiting=$!
  until_true 'grep -q listening /tmp/waiting'
  rdma link delete $name & removal=$!
  wait $waiting; code=$?
  grep -q "connection request: DEVICE_REMOVED" /tmp/waiting
  verdict $? "$name: a waiting GetConnectionRequest hears of the removal" "$(tail -1 /tmp/waiting), exit code $code"
  wait $server
  grep -q "completion: CANCELED\|DEVICE_REMOVED" /tmp/server
  verdict $? "$name: a waiting receive ends with the removal" "$(tail -1 /tmp/server)"
  wait $client
  grep -q "DEVICE_REMOVED\|CONNECTION\|CANCELED" /tmp/client
  verdict $? "$name: what the other asks for afterwards is refused" "$(tail -1 /tmp/client)"
  wait $removal
  verdict $? "$name: the kernel lets the device go"
  until_true '! "$FOLDER/ndctl" adapter list | grep -q $name'
  verdict $? "$name: gone from the adapters"
  "$FOLDER/ndctl" events --since 1m 2>/dev/null | grep -q "$name"
  verdict $? "$name: the events name it"

  plug
  until_addresses $name $subnet.1
  pair $name $subnet.1:7001 0
  wait $client; code=$?; wait $server; code=$((code + $?))
  verdict $code "$name: plugged again, connects again" "$(tail -1 /tmp/client)"
  rdma link delete $name
  ip link delete $net
done
kill $BROKER
exit $FAILED
