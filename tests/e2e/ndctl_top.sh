#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ndctl top on a terminal, by tmux, while real connections move data: rates, groups, keys, a broker that goes away.
source "$(dirname "$0")/lib.sh"
command -v tmux > /dev/null || exit 77
start_broker

screen() { tmux -S "$work/tmux" "$@"; }
trap 'screen kill-server 2> /dev/null || true; cleanup' EXIT
shows() { screen capture-pane -p | grep -qE -- "$1"; }
keys() { screen send-keys "$@"; }

expect 2 ndctl top --interval never
expect 2 ndctl top --by colour
expect 4 ndctl --address "$work/nowhere" top
expect 0 ndctl top --batch --count 2 --interval 0.1
contains "$out" "there is no connection"

"$bin/ndctl" ping --serve 127.0.0.2:7000 > "$work/serve.out" 2>&1 &
until_true "the listener" count_is 1 listener list
"$bin/ndctl" ping 127.0.0.2:7000 --count 100000000 > "$work/ping.out" 2>&1 &
pinging=$!
until_true "the connections" count_is 2 connection list --filter state=Connected

screen -f /dev/null new-session -d -x 110 -y 24 \
  "env PS1='$ ' LC_ALL=C.UTF-8 NDBROKER_DIR=$NDBROKER_DIR TERM=screen bash --norc"
keys "$bin/ndctl top --interval 0.2" Enter
until_true "the header" shows '^APPLICATION +CONNS +TX/s +RX/s'
until_true "a rate" shows '[0-9] connections, tx [1-9]'
until_true "a graph" shows '[▁▂▃▄▅▆▇█]'
until_true "the application" shows '^\+ ndctl'
keys Space
until_true "its connections" shows '^    [0-9a-z:-]+ Connected 127\.0\.0\.2'
keys g
until_true "groups by peer" shows '^PEER '
keys g
until_true "groups by adapter" shows '^\+ soft0'
keys g
keys s
until_true "another order" shows '^sort: rx'
keys r
until_true "the other way round" shows '^sort: rx up'
keys / nothing
until_true "the filter being typed" shows '^filter: nothing_'
until_true "the filter at work" shows 'no connection matches the filter'
keys Escape
until_true "the filter gone" shows '^[+-] ndctl'
keys f
until_true "the freeze" shows ', frozen'
keys f
keys h
until_true "the help" shows 'n name  c connections'
# A connection that ended leaves the screen. A missing broker is reported and found again.
kill "$pinging"
until_true "the end of the traffic" shows 'tx 0 B/s, rx 0 B/s'
kill "$broker"
wait "$broker" || true
until_true "the trouble" shows 'no broker answers'
start_broker
until_true "the broker again" shows '^sort: '
screen resize-window -x 70 -y 12
until_true "the small screen" shows '^APPLICATION +CONNS'
keys q
until_true "the prompt" bash -c "tmux -S '$work/tmux' capture-pane -p | grep -q '^[$] *$'"
done_well
