#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Runs the pairs of pairs.txt and prints the exit statuses of both ends as verbs_answers prints its answers. The same script
# runs in the virtual machine on the kernel's devices and on a broker; the caller says by variables how:
#   ADDRESS          of the server
#   SERVER_BY, CLIENT_BY   the words in front of a command (none: as it is)
#   WITH_CM, WITHOUT_CM    options that name the device
#   LISTENS          a command that succeeds when the port, its last word, is being listened at
#   PATIENCE         seconds for a program
#   AT_ONCE          pairs that run at the same time (1)
# usage: pairs.sh [NAME...]
set -u
here=$(cd "$(dirname "$0")" && pwd)
port=${FIRST_PORT:-18700}
patience=${PATIENCE:-40}
status_of() { # NAME END STATUS
  case $3 in
    124) echo "pair.$1 $2 ends: not in time" ;;
    *) echo "pair.$1 $2 ends: $3" ;;
  esac
}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# pair NAME SERVER CLIENT KILLED PORT
pair() {
  local name=$1 server=$2 client=$3 killed=$4 pid= client_pid code stays
  if [ "$server" != - ]; then
    timeout $patience ${SERVER_BY:-} $server < /dev/null > "$work/$name.server" 2>&1 & pid=$!
    for _ in $(seq 100); do
      $LISTENS "$5" 2> /dev/null && break
      kill -0 $pid 2> /dev/null || break
      sleep 0.2
    done
  fi
  timeout $patience ${CLIENT_BY:-} $client < /dev/null > "$work/$name.client" 2>&1 & client_pid=$!
  if [ -n "$killed" ]; then
    sleep "${BEFORE_KILL:-1}"
    kill -9 $(cat /proc/$pid/task/*/children)
  fi
  wait $client_pid
  status_of "$name" client $?
  [ -n "$pid" ] || return
  # A server that waits for somebody else would stay.
  sleep "${AFTER_CLIENT:-1}"
  kill -0 $pid 2> /dev/null && stays=1 || stays=
  kill $pid 2> /dev/null
  wait $pid 2> /dev/null
  code=$?
  [ -z "$stays" ] || code=stays
  [ -n "$killed" ] || status_of "$name" server $code
}
# The program of send_bw_events can wait for an event that nobody sends (docs/verbs-programs.md), so it has three attempts.
tried_pair() {
  for _ in 1 2 3; do
    pair "$@" > "$work/$1.status"
    [ "$1" = send_bw_events ] && grep -q 'not in time' "$work/$1.status" || break
  done
}
names=()
while IFS='|' read -r name server client; do
  name=$(echo $name) server=$(echo $server) client=$(echo $client)
  case $name in '' | '#'*) continue ;; esac
  [ $# = 0 ] || [[ " $* " == *" $name "* ]] || continue
  port=$((port + 1)) killed=
  for words in server client; do
    text=${!words}
    text=${text//@A/$ADDRESS} text=${text//@P/$port} text=${text//@D/${WITH_CM:-}}
    printf -v $words %s "${text//@G/${WITHOUT_CM:-}}"
  done
  case $server in killed:*) killed=1 server=${server#killed:} ;; esac
  [ "$(jobs -rp | wc -l)" -lt "${AT_ONCE:-1}" ] || wait -n
  tried_pair $name "$server" "$client" "$killed" $port &
  names+=("$name")
done < "$here/pairs.txt"
wait
for name in "${names[@]}"; do cat "$work/$name.status"; done
