#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Operations of an administrator: reservations, policy, configuration, draining, waiting.
source "$(dirname "$0")/lib.sh"
cat > "$work/config.toml" << END
[core]
max-backlog = 7

[[rule]]
name = "this-user"
match = { uid = $(id -u) }
listen = ["127.0.0.0/8:7000-7099"]

[[rule]]
name = "nobody-else"
listen = []
quota = { sessions = 3 }
END
start_broker

# Reservations: the port cannot be taken until it is released.
expect 0 ndctl port reserve 127.0.0.2:7001 --comment "kept for a test"
expect 0 ndctl port show 127.0.0.2:7001 -o json
json "$out" '.type == "reservation"'
expect 1 ndctl ping --serve 127.0.0.2:7001 -c 1
expect 1 ndctl port reserve 127.0.0.2:7001
expect 0 ndctl port release 127.0.0.2:7001
expect 3 ndctl port show 127.0.0.2:7001
expect 3 ndctl port release 127.0.0.2:7001
expect 2 ndctl port reserve 127.0.0.2

# Policy: the rules, one answer, its reasons.
expect 0 ndctl policy show -o json
golden policy_show "$out"
expect 0 ndctl policy check listen 127.0.0.2:7000 --uid "$(id -u)"
contains "$out" "this-user"
expect 3 ndctl policy check listen 127.0.0.2:8000 --uid "$(id -u)"
contains "$out" "refused"
expect 0 ndctl policy check bind 127.0.0.2:7000 --uid "$(id -u)"
expect 3 ndctl policy check bind 127.0.0.2:7000 --uid 1234
expect 0 ndctl policy check bind 127.0.0.2:0 --uid 1234
contains "$out" "Port 0"
expect 3 ndctl policy check listen 127.0.0.2:7000 --uid 1234 --gid 0 -o json
json "$out" '.kind == "PolicyAnswer" and .allowed == false and .rule == "nobody-else"'
golden policy_answer "${out/about uid $(id -u),/about uid 0,}"
expect 0 ndctl policy explain listen 127.0.0.2:7000 --uid 1234
contains "$out" "this-user"
contains "$out" "nobody-else"
expect 0 ndctl policy check limits --uid 1234 -o json
json "$out" '.limits | any(.resource == "sessions" and .limit == 3 and .rule == "nobody-else")'
expect 3 ndctl policy check limits --session s-999

# Configuration: the settings in force, their origin, and the changes that another file would make.
expect 0 ndctl config show -o json
json "$out" '.items | any(.name == "core.max-backlog" and (.value | tostring) == "7" and .origin == "file")'
json "$out" '.items | any(.origin == "default") and any(.origin == "command line")'
expect 0 ndctl config diff -q
contains "$out" "core.max-backlog"
expect 0 ndctl config check "$work/config.toml"
contains "$out" "a reload is enough"
printf '[limits]\nadmin-connections = 9\n' > "$work/other.toml"
expect 0 ndctl config check "$work/other.toml"
contains "$out" "restart"
echo 'nonsense = ' > "$work/wrong.toml"
expect 1 ndctl config check "$work/wrong.toml"
contains "$err" "wrong.toml:1"
expect 3 ndctl config check "$work/no-such-file.toml"

# Waiting, for scripts.
"$bin/ndctl" ping --serve 127.0.0.2:7000 > "$work/serve.out" 2>&1 &
expect 0 ndctl wait listener --filter local=127.0.0.2:7000 --for state=listening --timeout 20s -q
listener=$out
expect 6 ndctl wait listener "$listener" --for state=paused --timeout 100ms
expect 0 ndctl listener pause "$listener"
expect 0 ndctl wait listener "$listener" --for state=paused
expect 6 ndctl wait listener "$listener" --for gone --timeout 100ms
expect 0 ndctl session kill "$(ndctl session list -q)"
expect 0 ndctl wait listener "$listener" --for gone --timeout 20s
expect 0 ndctl wait listener l-ffff --for gone
expect 2 ndctl wait listner --for gone
contains "$err" "did you mean 'listener'?"

# On a terminal ndctl asks before it ends something; in a script it does not ask.
asked=$(script -qec "$bin/ndctl adapter disable soft0" /dev/null <<< n || true)
contains "$asked" "Continue? [y/N]"
contains "$asked" "nothing was changed"
expect 0 ndctl adapter list -o json
json "$out" '.items[0].state == "enabled"'
asked=$(script -qec "$bin/ndctl adapter disable soft0 --yes" /dev/null < /dev/null)
contains "$asked" "adapter soft0 disabled"
done_well
