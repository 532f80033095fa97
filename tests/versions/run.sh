#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# run.sh BUILD: brokers and libraries of this build and of the previous version (previous.sh) together: every combination on one
# host and across two, and an upgrade and a downgrade of the broker under traffic. Exits 77 when the previous version is
# not in the cache; tests/versions/previous.sh builds it.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
new=$(readlink -f "${1:-$here/../../build/release}")
skip() {
  echo "*** NOT TRIED: $1"
  exit 77
}
status=0
old=$("$here/previous.sh" --cached) || status=$?
[ $status -ne 77 ] || skip "the previous version is not built; run tests/versions/previous.sh once"
[ $status -eq 0 ] || exit 1
unshare --net true 2> /dev/null || skip "no right to make network namespaces"
# A network namespace with loopback alone, in which no other program has a port.
[ -n "${NDBROKER_VERSIONS_INSIDE:-}" ] || exec env NDBROKER_VERSIONS_INSIDE=1 unshare --net "$0" "$new"
ip link set lo up

source "$here/../e2e/lib.sh" "$new/bin"
declare -A pid=()
passed() {
  checks=$((checks + 1))
  echo "ok    $*"
}
folder() { if [ "$1" = new ]; then echo "$new"; else echo "$old"; fi; }
# become VERSION PROGRAM ARGUMENT...: with the library of that version, instead of this (sub)shell. run: waits for it.
become() { exec env LD_LIBRARY_PATH="$(folder "$1")/lib" "$(folder "$1")/bin/$2" "${@:3}"; }
run() { (become "$@"); }

# start NAME VERSION ADDRESS: a broker, at $work/NAME.
start() {
  become "$2" ndbrokerd --dir "$work/$1" --adapter-address "$3" >> "$work/$1.out" 2>> "$work/$1.log" &
  pid[$1]=$!
  until_true "the start of the $2 broker $1" test -S "$work/$1/client/lane.sock"
}
stop() {
  kill "${pid[$1]}"
  wait "${pid[$1]}" || fail "the broker $1 ended with $?: $(tail -1 "$work/$1.log")"
}
# traffic NAME VERSION LOCAL REMOTE: in the background, until end_traffic.
traffic() {
  : > "$work/$1.traffic"  # The "ready" of an earlier one is not meant.
  NDBROKER_DIR=$work/a become "$2" nd-traffic "$3" "$4" "$work/b" > "$work/$1.traffic" 2>&1 &
  pid[$1]=$!
  until_true "traffic with the $2 library" grep -q '^ready' "$work/$1.traffic"
}
end_traffic() {
  kill "${pid[$1]}"
  wait "${pid[$1]}" || fail "$2: $(cat "$work/$1.traffic")"
  passed "$2: $(grep '^connections=' "$work/$1.traffic")"
}

for broker in new old; do
  start a "$broker" 127.0.0.1
  for other in new old; do
    start b "$other" 127.0.0.2
    for library in new old; do
      traffic t "$library" 4 4
      sleep 0.5
      end_traffic t "one host: $broker broker; two hosts: $broker and $other broker; $library library on both"
    done
    # The two ends of a connection have libraries of different versions.
    for library in new old; do
      peer=$([ $library = new ] && echo old || echo new)
      for where in a b; do
        NDBROKER_DIR=$work/a become "$library" ndctl ping --serve 127.0.0.1:7100 --count 1 > "$work/serve.log" 2>&1 &
        pid[serve]=$!
        listens() { [ -n "$(NDBROKER_DIR=$work/a run "$broker" ndctl listener list -o name --filter local=127.0.0.1:7100 --filter state=listening)" ]; }
        until_true "a listener of the $library library" listens
        NDBROKER_DIR=$work/$where run "$peer" ndctl ping 127.0.0.1:7100 --count 200 --size 4096 > "$work/ping.log" 2>&1 || fail "ping: $(cat "$work/ping.log")"
        wait "${pid[serve]}" || fail "ping --serve: $(cat "$work/serve.log")"
        passed "$([ $where = a ] && echo "one host, shared memory" || echo "two hosts, iWARP"): $peer library connects to $library library ($broker broker$([ $where = a ] || echo " and $other broker"))"
      done
    done
    stop b
  done
  stop a
done

start b old 127.0.0.2
for library in new old; do
  start a old 127.0.0.1
  traffic t "$library" 10 10
  restarts=0
  for version in new old new; do
    stop a
    start a "$version" 127.0.0.1
    restarts=$((restarts + 1))
    until_true "the return of the sessions to the $version broker" grep -q "^restart=$restarts .*status=SUCCESS" "$work/t.traffic"
  done
  end_traffic t "upgrade, downgrade, upgrade under traffic of the $library library"
  stop a
done
stop b
echo "$checks checks of versions passed"
