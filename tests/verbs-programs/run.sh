#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Unmodified programs of the distribution as RDMA peers on the broker, by 'ndctl run'.
#
# usage: run.sh BUILD_DIR [table] [all | PROGRAM ...]     without a word: the pairs that are quick; table: one at the end
#   PROGRAM 'answers': answers/answers.sh, which is not in 'all'
#   NDBROKER_VERBS_WITHOUT: a program that is left out
#   NDBROKER_VERBS_PROGRAMS: a list in the place of programs.txt (fabtests.sh)
# Each pair runs on one broker and over two brokers in two network namespaces. Server and client must end with status 0
# in time; both print a reason otherwise. 77: this host has no network namespaces or none of the programs.
set -u
build=$(cd "$1" && pwd); shift
here=$(cd "$(dirname "$0")" && pwd)

if [ -z "${NDBROKER_VERBS_ISOLATED:-}" ]; then
  unshare --net true 2> /dev/null && exec env NDBROKER_VERBS_ISOLATED=1 unshare --net "$here/run.sh" "$build" "$@"
  unshare --user --map-root-user --net true 2> /dev/null &&
    exec env NDBROKER_VERBS_ISOLATED=1 unshare --user --map-root-user --net "$here/run.sh" "$build" "$@"
  echo "SKIP: no network namespaces"
  exit 77
fi

patience=${NDBROKER_VERBS_PATIENCE:-100}
work=$(mktemp -d)
near=10.91.0.1 far=10.91.0.2
pids=()
cleanup() {
  for pid in "${pids[@]}"; do kill "$pid" 2> /dev/null; done
  wait
  rm -rf "$work"
}
trap cleanup EXIT

# Namespace 1 is that of this script; namespace 2 lives as long as a process is in it.
ip link set lo up
unshare --net sleep 3600 & pids+=($!)
second=$!
for _ in $(seq 50); do [ "$(readlink /proc/$second/ns/net)" != "$(readlink /proc/self/ns/net)" ] && break; sleep 0.1; done
ip link add veth1 type veth peer name veth2 netns "$second" || exit 77
ip addr add $near/24 dev veth1 && ip link set veth1 up
in_second=(nsenter --target "$second" --net)
"${in_second[@]}" ip addr add $far/24 dev veth2 && "${in_second[@]}" ip link set veth2 up && "${in_second[@]}" ip link set lo up

declare -A broker
start_broker() {  # DIR, ADDRESS, how to enter the namespace
  mkdir -p "$work/$1"
  "${@:3}" "$build/bin/ndbrokerd" --dir "$work/$1" --adapter-address "$2" > "$work/$1.log" 2>&1 & pids+=($!)
  broker[$1]=$!
  for _ in $(seq 100); do grep -qs ^READY "$work/$1.log" && return; sleep 0.1; done
  echo "FAIL: the broker $1 did not start"; cat "$work/$1.log"; exit 1
}
start_brokers() {
  start_broker near $near
  start_broker far $far "${in_second[@]}"
}
start_brokers

ndctl=$build/bin/ndctl
ok=0 failed=0 missing=0 results=()

# Runs a program as a process of the broker near or far: WHICH COMMAND... A program 'nd:NAME' is one of this tree that
# knows brokers; the others are started by 'ndctl run'.
launch() {
  local side=$1; shift
  local -a enter=(env) words
  [ "$side" = far ] && enter=("${in_second[@]}")
  case $1 in nd:*) words=("$build/bin/${1#nd:}" "${@:2}");; *) words=("$ndctl" run $as -- "$@");; esac
  NDBROKER_DIR=$work/$side exec "${enter[@]}" timeout "$patience" "${words[@]}" < /dev/null
}
head_start() { sleep "${NDBROKER_VERBS_HEAD_START:-1}"; }
# The program of a command, which may begin with 'env NAME=VALUE'.
installed() {
  local word
  for word in "$@"; do
    case $word in
      env | *=*) continue;;
      nd:*) [ -x "$build/bin/${word#nd:}" ]; return;;
      *) command -v "$word" > /dev/null; return;;
    esac
  done
}
# verdict NAME STATUS...: each must be 0. The logs of the ends are shown when one is not.
verdict() {
  local name=$1; shift
  results+=("${name% broker(s)}|$([ "$(printf %s "$@" | tr -d 0)" = "" ] && echo ok || echo FAIL)")
  if [ "$(printf %s "$@" | tr -d 0)" = "" ]; then
    ok=$((ok + 1)); echo "ok    $name"
    return
  fi
  failed=$((failed + 1))
  echo "FAIL  $name: client, server: $*"
  sed 's/^/      server: /' "$work/server.log" | tail -5
  sed 's/^/      client: /' "$work/client.log" | tail -5
}

# pair NAME WHERE SERVER CLIENT: @A is the server's address, @C the client's. A server whose command begins with "stays:" is
# ended after the client, because it never ends by itself.
pair() {
  local name=$1 where=$2 server=$3 client=$4 stays=
  case $server in stays:*) stays=1; server=${server#stays:};; esac
  local address=$near side=near server_status
  if [ "$where" = two ]; then address=$far side=far; fi
  client=${client//@A/$address} server=${server//@A/$address}
  client=${client//@C/$near}
  client=${client//@B/$build\/bin} server=${server//@B/$build\/bin}
  if ! installed $server || ! installed $client; then missing=$((missing + 1)); echo "-     $name: not installed"; return; fi
  # perftest calibrates the processor's clock and ends with an error when its samples scatter, as they do on a busy host.
  # Such an attempt is made again.
  local attempt
  for attempt in 1 2 3; do
    (launch $side $server) > "$work/server.log" 2>&1 &
    local waiter=$!
    head_start
    (launch near $client) > "$work/client.log" 2>&1
    local status=$?
    [ -n "$stays" ] && kill $waiter
    wait $waiter
    server_status=$?
    [ -n "$stays" ] && server_status=0
    # This one waits for an event that nobody sends, when the program of its server was late (docs/verbs-programs.md).
    [[ $name = *-e-iwarp && $status = 124 ]] && continue
    grep -qs 'Correlation coefficient r^2' "$work/client.log" "$work/server.log" || break
  done
  verdict "$name, $where broker(s)" $status $server_status
}

wanted=("$@") table=
[ "${1:-}" = table ] && { table=1; wanted=("${@:2}"); }
selected() {  # NAME, quick or slow
  local one
  [ "$1" = "${NDBROKER_VERBS_WITHOUT:-}" ] && return 1
  [ ${#wanted[@]} = 0 ] && { [ "$2" = quick ]; return; }
  for one in "${wanted[@]}"; do [ "$one" = all ] && [ "$2" != apart ] || [ "$one" = "$1" ] && return 0; done
  return 1
}

while IFS='|' read -r name speed as server client; do
  name=$(echo $name) speed=$(echo $speed) as=$(echo $as) server=$(echo $server) client=$(echo $client)
  case $name in ''|'#'*) continue;; esac
  selected "$name" "$speed" || continue
  [ "$as" = roce ] && as= || as="--as $as"
  pair "$name" one "$server" "$client"
  pair "$name" two "$server" "$client"
done < "${NDBROKER_VERBS_PROGRAMS:-$here/programs.txt}"
as=
selected rping-loopback quick && pair rping-loopback one 'rping -s -a 127.0.0.1 -C 5 -V' 'rping -c -a 127.0.0.1 -C 5 -V'

# rdma-core's own tests, one process for each file. Those of pyverbs_passes.txt must pass.
pyverbs() {
  local tests=/usr/share/doc/rdma-core/tests python=/usr/bin/python3 file passed
  if [ ! -d $tests ] || ! $python -c 'import pyverbs' 2> /dev/null; then
    # Where the packages of the tests are installed, its absence is a mistake.
    if [ -n "${NDBROKER_TEST_PACKAGES:-}" ]; then failed=$((failed + 1)); else missing=$((missing + 1)); fi
    echo "-     pyverbs: not installed"; return
  fi
  cp -r $tests "$work/tests" && gunzip -f "$work"/tests/*.gz
  for file in $(sed 's/#.*//; s/\..*//' "$here/pyverbs_passes.txt" | sort -u); do
    NDBROKER_DIR=$work/near timeout "$patience" "$ndctl" run -- $python "$here/pyverbs_run.py" "$work/tests" \
      --dev soft0 --port 1 --gid 0 "$file" >> "$work/pyverbs.log" 2> "$work/pyverbs.err"
  done
  passed=$(grep -c '^ok ' "$work/pyverbs.log")
  if grep -v '^#' "$here/pyverbs_passes.txt" | sort | comm -23 - <(sed -n 's/^ok //p' "$work/pyverbs.log" | sort) |
       sed 's/^/      did not pass: /' | grep .; then
    failed=$((failed + 1)); echo "FAIL  pyverbs: $passed passed"
  else
    ok=$((ok + 1))
    echo "ok    pyverbs: $passed passed, $(grep -c '^skip ' "$work/pyverbs.log") skipped, $(grep -c '^fail ' "$work/pyverbs.log") failed"
  fi
}
selected pyverbs quick && pyverbs

. "$here/more.sh"
. "$here/answers/answers.sh"

print_table() {
  local one name where
  local -A seen
  for one in "${results[@]}"; do seen[${one%|*}]=${one#*|}; done
  echo "| program | one broker | two brokers |"
  echo "|---|---|---|"
  for one in "${results[@]}"; do
    name=${one%, *} where=${one##*, }
    [ "${where%|*}" = two ] && [ -n "${seen[$name, one]:-}" ] && continue
    echo "| $name | ${seen[$name, one]:--} | ${seen[$name, two]:--} |"
  done
}
[ -z "$table" ] || print_table
echo "$ok ok, $failed failed, $missing not installed"
if [ ${#wanted[@]} -gt 0 ] && [ $((ok + failed + missing)) = 0 ]; then
  echo "run.sh: no program of this table is named ${wanted[*]}"
  exit 2
fi
[ $failed = 0 ] || exit 1
[ $ok -gt 0 ] || exit 77
