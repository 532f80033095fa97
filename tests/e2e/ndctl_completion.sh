#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A real bash with its completion loaded: commands, live names from the broker, words with colons; and no delay
# without a broker.
source "$(dirname "$0")/lib.sh"
command -v tmux > /dev/null || exit 77
start_broker
"$bin/ndctl" ping --serve 127.0.0.2:7000 > "$work/serve.out" 2>&1 &
until_true "the listener" count_is 1 listener list
id=$(ndctl listener list -o name)

expect 0 ndctl __complete listener show ""
contains "$out" "$id"
expect 0 ndctl __complete port show 127.0
contains "$out" "127.0.0.2:7000"
expect 0 env NDBROKER_DIR="$work/nowhere" "$bin/ndctl" __complete listener show ""
[ -z "$out" ] || fail "names without a broker: $out"
for shell in bash zsh fish; do expect 0 ndctl completion $shell; done
expect 2 ndctl completion csh
bash -n <(ndctl completion bash)
if command -v zsh > /dev/null; then ndctl completion zsh > "$work/_ndctl" && zsh -n "$work/_ndctl"; fi

screen() { tmux -S "$work/tmux" "$@"; }
trap 'screen kill-server 2> /dev/null || true; cleanup' EXIT
shows() { screen capture-pane -p | grep -qF -- "$1"; }
keys() { screen send-keys "$@"; }
screen -f /dev/null new-session -d -x 110 -y 24 \
  "env PS1='$ ' NDBROKER_DIR=$NDBROKER_DIR PATH=$bin:$PATH TERM=screen bash --norc"
keys 'eval "$(ndctl completion bash)"; clear' Enter
until_true "the prompt" bash -c "tmux -S '$work/tmux' capture-pane -p | grep -q '^[$] *$'"
keys 'ndctl listen' Tab
until_true "the command" shows '$ ndctl listener'
keys 'sho' Tab
until_true "the verb" shows '$ ndctl listener show'
keys Tab
until_true "the live name" shows "\$ ndctl listener show $id"
keys C-u 'ndctl port show 127.0.0.2:7' Tab
until_true "the word with a colon, once" shows '$ ndctl port show 127.0.0.2:7000'
keys C-u 'ndctl --output=ya' Tab
until_true "the value after an equals sign" shows '$ ndctl --output=yaml'
done_well
