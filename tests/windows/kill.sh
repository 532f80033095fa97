# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# For tests/windows/run.sh: ends of a client and of a broker with stamped data under way, by SIGKILL, which Wine makes the
# sudden end of a process of Windows. Needs `broker` and `exchange` of brokers.sh and `step` of service.sh.

kill_port=4976  # The TCP port of the brokers, and of one end of each data connection between them.

# flow NAME LISTENER-BROKER CONNECTOR-BROKER ADDRESS:PORT ROUNDS: two clients that exchange data slowly. Returns when data
# flows. Sets flow_log, listener and connector.
flow() {
  local role broker
  flow_log=$build/kill-$1
  rm -f "$flow_log"-*.log
  export NDBROKER_PAIR_PACE=20
  for role in listen connect; do
    broker=$2
    [ "$role" = listen ] || broker=$3
    NDBROKER_DIR=${broker_directory[$broker]} wine "$build/bin/nd_pair.exe" "$role" "$4" "$5" < /dev/null \
      > "$flow_log-$role.log" 2>&1 &
    if [ "$role" = listen ]; then
      listener=$!
      await "$flow_log-$role.log" '^waiting'
    else
      connector=$!
    fi
  done
  unset NDBROKER_PAIR_PACE
  await "$flow_log-listen.log" '^round 20' && await "$flow_log-connect.log" '^round 20'
}
# ended PID: by SIGKILL.
ended() {
  kill -9 "$1" 2> /dev/null || true
  wait "$1" 2> /dev/null || true
}
# has_ended PID SECONDS
has_ended() {
  local _
  for _ in $(seq $((10 * $2))); do
    kill -0 "$1" 2> /dev/null || return 0
    sleep 0.1
  done
  return 1
}
# ends_with PID CODE: within a minute.
ends_with() {
  local status=0
  has_ended "$1" 60 || true
  kill -9 "$1" 2> /dev/null || true
  wait "$1" 2> /dev/null || status=$?
  [ "$status" -eq "$2" ]
}
# told_of_a_death PID LOG: the program ended with its peer, whose process had died.
told_of_a_death() { ends_with "$1" 3 && grep -qa '^told that the peer has gone: peer process died' "$2"; }
# verdict NAME TEXT|FILE CONDITION...: a line of the table, with the last line of the file.
verdict() {
  local result=ok text=$2
  "${@:3}" || { result="FAILED ($flow_log-*.log)" && failed=1; }
  [ ! -e "$text" ] || text=$(grep -av '^round\|^nd_pair' "$text" | tail -1 | tr -d '\r' || true)
  printf '%-40s %s %s\n' "$1" "$text" "$result"
}
# The broker has neither session, connection nor port.
nothing_held() {
  local noun _
  for noun in session connection port; do
    for _ in $(seq 50); do
      ! wine "$build/bin/ndctl.exe" --address "${broker_directory[$1]}" "$noun" list -o json 2>&1 | tr -d ' \r\n' | grep -q '"items":\[\]' ||
        continue 2
      sleep 0.2
    done
    echo "broker $1 still has a $noun"
    return 1
  done
}
round_of() { grep -a '^round' "$1" | tail -1 | tr -dc 0-9; }
# while_rounds_come FILE CONDITION...: waits for the condition, at most ten minutes, and not a minute without a new round. A busy machine makes them slow.
while_rounds_come() {
  local file=$1 last='' since=$SECONDS start=$SECONDS
  shift
  until "$@"; do
    [ "$(round_of "$file")" = "$last" ] || { last=$(round_of "$file") && since=$SECONDS; }
    [ $((SECONDS - since)) -le 60 ] && [ $((SECONDS - start)) -le 600 ] || return 1
    sleep 0.1
  done
}
is_beyond() { [ "$(round_of "$1")" -ge "$2" ]; }
is_over() { ! kill -0 "$1" 2> /dev/null; }
# goes_on FILE ROUND: the program gets 200 rounds further.
goes_on() { while_rounds_come "$1" is_beyond "$1" $(($2 + 200)); }
# finishes PID FILE
finishes() { while_rounds_come "$2" is_over "$1" && ends_with "$1" 0; }

# data_socket SIDE: the inode of the end of the only data connection that the client of this side has.
data_socket() {
  local port='sport' ends
  [ "$1" = listener ] || port=dport
  ends=$(ss -Htnpe state established "( $port = :$kill_port )" | grep -o 'ino:[0-9]*')
  [ "$(wc -w <<< "$ends")" -eq 1 ] && echo "$ends"
}
# only_the_wine_server_has SOCKET: the kernel has the connection of the dead process as established, at both ends, and no process but the Wine
# server has the dead one's end.
only_the_wine_server_has() {
  local end
  end=$(ss -Htnpe state established "( sport = :$kill_port or dport = :$kill_port )" | grep -w "$1") || return 1
  [[ $end =~ users:\(\(\"wineserver[0-9]*\",pid=[0-9]+,fd=[0-9]+\)\) ]] || return 1
  # shellcheck disable=SC2086 # Its columns are words.
  set -- $end
  ss -Htn state established "src $4 and dst $3" | grep -q .
}
# one_client_killed NAME SIDE LISTENER-BROKER CONNECTOR-BROKER ADDRESS:PORT: SIDE is the client that is killed.
# Returns 2 when nobody can be told of its end. Wine 8.0 keeps a socket for ever when its process ends before it has taken the answer of a
# poll (docs/windows.md). The proof is that the connection is still established when the brokers are dead as well, which are the only other
# programs that ever had a handle of that socket.
one_client_killed() {
  local name=$1 victim survivor broker=$4 log socket each status=0
  flow "$name" "$3" "$4" "$5" 1000000 || { verdict "$name" "no data" false && return; }
  victim=$connector survivor=$listener log=$flow_log-listen.log
  [ "$2" = connector ] || { victim=$listener survivor=$connector broker=$3 log=$flow_log-connect.log; }
  socket=$(data_socket "$2") || true
  ended "$victim"
  if has_ended "$survivor" 45; then  # It ends by itself after a minute without its peer.
    verdict "$name" "$log" told_of_a_death "$survivor" "$log"
    verdict "$name-reclaimed" "no session, connection or port" nothing_held "$broker"
    return
  fi
  verdict "$name-reclaimed" "no session, connection or port" nothing_held "$broker"
  if [ -n "$socket" ]; then
    for each in "$3" "$4"; do ended "${broker_pid[$each]}"; done
    sleep 3
    ! only_the_wine_server_has "$socket" || ! kill -0 "$survivor" || status=2
    for each in "$3" "$4"; do broker "$each" windows "${broker_address[$each]}" "$kill_port"; done
    sleep 2  # The survivor has its port from the new broker, too, before it ends.
  fi
  ended "$survivor"
  nothing_held "$3" && nothing_held "$4" || true
  if [ "$status" -eq 2 ]; then
    printf '%-40s not shown: the Wine server keeps the socket of the dead process\n' "$name"
    return 2
  fi
  verdict "$name" "the peer was not told" false
}
# client_killed NAME LISTENER-BROKER CONNECTOR-BROKER ADDRESS PORT: once each side; again where a kill shows nothing.
client_killed() {
  local side name status
  for side in connector listener; do
    name=$1-client-killed
    [ "$side" = connector ] || name=$1-listening-client-killed
    for _ in 1 2 3 4; do
      status=0
      one_client_killed "$name" "$side" "$2" "$3" "$4:$5" || status=$?
      [ "$status" -eq 2 ] || continue 2
    done
    verdict "$name" "not shown by four kills" false
  done
  exchange "$1-port-serves-again" "$2" "$3" "$4:$5"
}

# broker_killed NAME LISTENER-BROKER CONNECTOR-BROKER ADDRESS PORT: data goes on without a broker; a new one takes over.
broker_killed() {
  local name=$1-broker-killed each before
  flow "$name" "$2" "$3" "$4:$5" 800 || { verdict "$name" "no data" false && return; }
  for each in $(printf '%s\n' "$2" "$3" | sort -u); do
    ended "${broker_pid[$each]}"
  done
  before=$(round_of "$flow_log-connect.log")
  verdict "$name-data-goes-on" "200 rounds after round $before" goes_on "$flow_log-connect.log" "$before"
  for each in $(printf '%s\n' "$2" "$3" | sort -u); do
    broker "$each" windows "${broker_address[$each]}" "$kill_port"
  done
  verdict "$name-listener" "$flow_log-listen.log" finishes "$listener" "$flow_log-listen.log"
  verdict "$name" "$flow_log-connect.log" finishes "$connector" "$flow_log-connect.log"
  exchange "$1-new-broker-serves" "$2" "$3" "$4:$((5 + $5))"
}

kills() {
  echo
  broker k windows 127.0.0.6 "$kill_port"
  broker m windows 127.0.0.7 "$kill_port"
  client_killed shared-memory k k 127.0.0.6 7490
  client_killed iwarp m k 127.0.0.7 7491
  broker_killed shared-memory k k 127.0.0.6 7492
  broker_killed iwarp m k 127.0.0.7 7493
}
