# SPDX-License-Identifier: Apache-2.0
# programs.sh FOLDER: in the virtual machine, unmodified programs on a broker's soft adapter (the library of 'ndctl run --as
# iwarp') with the same programs on the kernel's siw, each as client and as server. The broker has a network namespace of
# its own, so that all data goes over a wire. Prints one line for each; the exit code is the number of failures.
FOLDER=$1
export NDBROKER_DIR=/run/ndbroker-programs
FAILED=0 PORT=7400
ip link add s0 type veth peer name s1
ip addr add 10.9.2.1/24 dev s0
ip link set s0 up
unshare --net sleep 900 & SPACE=$!
for _ in $(seq 100); do [ "$(readlink /proc/$SPACE/ns/net)" != "$(readlink /proc/self/ns/net)" ] && break; sleep 0.1; done
ip link set s1 netns $SPACE
in_space() { nsenter --target $SPACE --net "$@"; }
in_space ip addr add 10.9.2.2/24 dev s1
in_space ip link set s1 up
in_space ip link set lo up
rdma link add siwv type siw netdev s0 || exit 1
cat > /tmp/programs.toml <<'END'
[verbs]
enabled = false
[[adapter]]
name = "soft0"
addresses = ["10.9.2.2"]
mode = "tcp"
END
LD_LIBRARY_PATH=$FOLDER nsenter --target $SPACE --net "$FOLDER/ndbrokerd" --dir $NDBROKER_DIR --config /tmp/programs.toml \
  > /tmp/programs.log 2>&1 & BROKER=$!
for _ in $(seq 300); do grep -qs ^READY /tmp/programs.log && break; sleep 0.1; done
LIBRARY=$FOLDER/verbs
ours() { # command: 'ndctl run', whose own start would take a second here
  nsenter --target $SPACE --net env LD_PRELOAD="$LIBRARY/libibverbs.so.1" LD_LIBRARY_PATH="$LIBRARY" NDBROKER_VERBS_AS=iwarp \
    timeout 60 "$@" > /tmp/ours 2>&1
}
theirs() { timeout 60 "$@" > /tmp/theirs 2>&1; }
until_we_listen() { for _ in $(seq 200); do in_space ss -Hltn "sport = :$1" | grep -q . && return; sleep 0.1; done; }
until_they_listen() {
  for _ in $(seq 200); do
    rdma resource show cm_id 2> /dev/null | grep -q "state LISTEN.*:$1 " && return
    sleep 0.1
  done
}
verdict() { # codes what
  if [ "$1" = "0 0" ]; then echo "ok   $2"; return; fi
  echo "FAIL $2 (exit codes $1)"; tail -n 4 /tmp/ours /tmp/theirs | sed 's/^/       /'; FAILED=$((FAILED + 1))
}
both() { # name, server, client, option of siw; @P: port, @A: the server's address
  local server client option=${4:-}
  PORT=$((PORT + 1)); server=${2//@P/$PORT} client=${3//@P/$PORT}
  ours ${server//@A/10.9.2.2} & pid=$!
  until_we_listen $PORT
  theirs ${client//@A/10.9.2.2} $option
  code=$?
  wait $pid; verdict "$? $code" "$1: siw is the client"
  PORT=$((PORT + 1)); server=${2//@P/$PORT} client=${3//@P/$PORT}
  theirs ${server//@A/10.9.2.1} $option & pid=$!
  until_they_listen $PORT
  ours ${client//@A/10.9.2.1}
  code=$?
  wait $pid; verdict "$code $?" "$1: siw is the server"
}
both rping "rping -s -a @A -p @P -C 5 -V" "rping -c -a @A -p @P -C 5 -V"
both ucmatose "ucmatose -b @A -p @P" "ucmatose -s @A -p @P"
# Without its name perftest would take the attributes of rxe0, the first device of the machine.
both "ib_send_bw -R" "ib_send_bw -R -p @P -n 100 -s 4096" "ib_send_bw -R -p @P -n 100 -s 4096 @A" "-d siwv"
kill $BROKER
rdma link del siwv
ip link del s0
kill $SPACE
exit $FAILED
