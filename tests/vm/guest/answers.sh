# SPDX-License-Identifier: Apache-2.0
# answers.sh FOLDER OUTPUT: in the virtual machine, the answers of the kernel's rxe and siw to the scenarios of verbs_answers and
# to the pairs of programs (tests/verbs-programs/answers), in OUTPUT/rxe.txt and OUTPUT/siw.txt.
FOLDER=$1 OUTPUT=$2
ANSWERS=$(dirname "$0")/../../verbs-programs/answers
export LD_LIBRARY_PATH=$FOLDER
mkdir -p "$OUTPUT"
# Without a route, as on the network of the test with a broker.
ip route del default
ip link add s0 type veth peer name s1
ip addr add 10.9.2.1/24 dev s0
ip link set s0 up
ip link set s1 up
cat > /tmp/listens <<'END'
#!/bin/bash
rdma resource show cm_id 2> /dev/null | grep -q "state LISTEN.*:$1 " || ss -Hltn "sport = :$1" | grep -q .
END
chmod +x /tmp/listens
for kind in rxe siw; do
  rdma link add ${kind}v type $kind netdev s0 || exit 1
  sleep 1
  # The entry of the table of addresses that has the IPv4 address; siw has one entry.
  entry=0
  [ $kind = rxe ] && entry=$(grep -l 0a09:0201 /sys/class/infiniband/rxev/ports/1/gids/* | sed 's#.*/##' | sort -n | tail -1)
  "$FOLDER/verbs_answers" 10.9.2.1 10.9.2.77 --at-once 4 > "$OUTPUT/$kind.txt"
  ADDRESS=10.9.2.1 AT_ONCE=2 AFTER_CLIENT=3 BEFORE_KILL=3 PATIENCE=90 WITH_CM="-d ${kind}v" WITHOUT_CM="-d ${kind}v -g $entry" \
    LISTENS=/tmp/listens bash "$ANSWERS/pairs.sh" >> "$OUTPUT/$kind.txt"
  rdma link del ${kind}v
done
ip link del s0
ip route add default via 10.0.2.2
