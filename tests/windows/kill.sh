# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# For tests/windows/run.sh: ends of a client and of a broker with stamped data under way, by SIGKILL, which Wine makes the
# sudden end of a process of Windows. Needs `broker` and `exchange` of brokers.sh and `step` of service.sh.

# flow NAME LISTENER-BROKER CONNECTOR-BROKER ADDRESS:PORT ROUNDS: two clients that exchange data slowly. Returns when data
# flows. Sets flow_log, listener and connector.
flow() {
  local role broker
  flow_log=$build/kill-$1
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
# ends_with PID CODE: within a minute.
ends_with() {
  local status=0 _
  for _ in $(seq 600); do
    ! kill -0 "$1" 2> /dev/null || { sleep 0.1 && continue; }
    break
  done
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
# goes_on FILE ROUND: the program gets 200 rounds further.
goes_on() {
  local _
  for _ in $(seq 600); do
    [ "$(round_of "$1")" -lt $(($2 + 200)) ] || return 0
    sleep 0.1
  done
  return 1
}

# client_killed NAME LISTENER-BROKER CONNECTOR-BROKER ADDRESS PORT: once each side.
client_killed() {
  local name=$1-client-killed
  flow "$name" "$2" "$3" "$4:$5" 1000000 || { verdict "$name" "no data" false && return; }
  ended "$connector"
  verdict "$name" "$flow_log-listen.log" told_of_a_death "$listener" "$flow_log-listen.log"
  verdict "$name-reclaimed" "no session, connection or port" nothing_held "$3"
  name=$1-listening-client-killed
  flow "$name" "$2" "$3" "$4:$5" 1000000 || { verdict "$name" "no data" false && return; }
  ended "$listener"
  verdict "$name" "$flow_log-connect.log" told_of_a_death "$connector" "$flow_log-connect.log"
  verdict "$name-reclaimed" "no session, connection or port" nothing_held "$2"
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
    broker "$each" windows "${broker_address[$each]}" 4976
  done
  verdict "$name-listener" "$flow_log-listen.log" ends_with "$listener" 0
  verdict "$name" "$flow_log-connect.log" ends_with "$connector" 0
  exchange "$1-new-broker-serves" "$2" "$3" "$4:$((5 + $5))"
}

kills() {
  echo
  broker k windows 127.0.0.6 4976
  broker m windows 127.0.0.7 4976
  client_killed shared-memory k k 127.0.0.6 7490
  client_killed iwarp m k 127.0.0.7 7491
  broker_killed shared-memory k k 127.0.0.6 7492
  broker_killed iwarp m k 127.0.0.7 7493
}
