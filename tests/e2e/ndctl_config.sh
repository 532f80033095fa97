#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Reload of the configuration: a new policy refuses, and a file with an error changes nothing.
source "$(dirname "$0")/lib.sh"
echo > "$work/config.toml"
start_broker

"$bin/ndctl" ping --serve 127.0.0.2:7000 > /dev/null 2>&1 &
until_true "the listener" count_is 1 listener list --filter state=listening
expect 0 ndctl ping 127.0.0.2:7000

cat > "$work/config.toml" << 'END'
[[rule]]
name = "nobody-connects"
connect = []
END
expect 0 ndctl config reload
expect 5 ndctl ping 127.0.0.2:7000
contains "$err" "ACCESS_DENIED"

echo '[core]
max-backlog = "many"' > "$work/config.toml"
expect 1 ndctl config reload
contains "$err" "config.toml:2"
contains "$err" "max-backlog"
expect 1 ndctl config reload -o json
json "$err" '.error.status == "INVALID_PARAMETER"'
expect 5 ndctl ping 127.0.0.2:7000

echo > "$work/config.toml"
expect 0 ndctl config reload
expect 0 ndctl ping 127.0.0.2:7000
done_well
