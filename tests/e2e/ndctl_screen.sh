#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A terminal, by tmux: the pager appears only for output that does not fit; --watch redraws in place and marks
# changes.
source "$(dirname "$0")/lib.sh"
command -v tmux > /dev/null || exit 77
start_broker

screen() { tmux -S "$work/tmux" "$@"; }
trap 'screen kill-server 2> /dev/null || true; cleanup' EXIT
screen -f /dev/null new-session -d -x 100 -y 24 "env PS1='$ ' NDBROKER_DIR=$NDBROKER_DIR TERM=screen bash --norc"
shows() { screen capture-pane -p | grep -q -- "$1"; }
type_keys() { screen send-keys "$@"; }

type_keys "$bin/ndctl adapter list" Enter
until_true "a short list" shows soft0
until_true "the prompt, without a pager" bash -c "tmux -S '$work/tmux' capture-pane -p | tail -n +3 | grep -q '^[$] *$'"

type_keys "clear; NDCTL_PAGER='sed s/^/PAGED:/' $bin/ndctl explain" Enter
until_true "the pager" shows PAGED:
type_keys "clear; PAGER='sed s/^/PAGED:/' $bin/ndctl explain --no-pager; echo over" Enter
until_true "the end" shows '^over'
shows PAGED: && fail "--no-pager started a pager"
type_keys "clear; NDCTL_PAGER=/no/such/pager $bin/ndctl explain; echo over" Enter
until_true "the text without a pager" shows 'listener.REFUSED'

type_keys "clear; $bin/ndctl listener list --watch=0.2 --color never" Enter
until_true "the first look" shows 'every 0.2 s'
"$bin/ndctl" ping --serve 127.0.0.2:7000 > "$work/serve.out" 2>&1 &
until_true "the change" shows '127.0.0.2:7000'
[ "$(screen capture-pane -p | grep -c 'every 0.2 s')" -eq 1 ] || fail "not redrawn in place: $(screen capture-pane -p)"
type_keys C-c
until_true "the prompt" bash -c "tmux -S '$work/tmux' capture-pane -p | grep -q '^[$] *$'"
done_well
