#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The lane is served before the libraries of the other services are loaded, and a broker that cannot load them says why
# and ends.
source "$(dirname "$0")/lib.sh"

place=$work/place
module=$place/lib/ndbroker/ndbrokerd-services.so
mkdir -p "$place/sbin" "$place/lib/ndbroker"
cp "$bin/ndbrokerd" "$place/sbin/"

# launch: starts the broker of this place, without waiting for it.
launch() {
  "$place/sbin/ndbrokerd" --dir "$NDBROKER_DIR" --adapter-address 127.0.0.2 --tcp-port "$(free_port)" \
    > "$work/broker.out" 2> "$work/broker.log" &
  broker=$!
}
# ends_with TEXT: the broker ends with exit code 1 and a message that has the text.
ends_with() {
  local got=0
  wait "$broker" || got=$?
  checks=$((checks + 1))
  [ "$got" -eq 1 ] || fail "the broker ended with $got instead of 1"
  grep -qF -- "$1" "$work/broker.log" || fail "the log has no \"$1\""
  grep -q 'install the package ndbroker again' "$work/broker.log" || fail "the log has no remedy"
}

# ---- Opening a pipe waits for its other end: the broker is in the middle of loading.
mkfifo "$module"
launch
until_true "the lane" test -S "$NDBROKER_DIR/client/lane.sock"
expect 0 timeout 10 python3 -c '
import socket, sys
lane = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
lane.connect(sys.argv[1])
assert len(lane.recv(4096)) > 16, "no token"' "$NDBROKER_DIR/client/lane.sock"
[ ! -s "$work/broker.out" ] || fail "the broker is ready before its services are: $(cat "$work/broker.out")"
echo 'no library' > "$module"
ends_with "cannot load $module: "
[ ! -e "$NDBROKER_DIR/admin.sock" ] || fail "a socket that nobody serves is left"

rm "$module"
launch
ends_with "cannot load $module: "

version=$("$bin/ndbrokerd" --version | awk '{ print $NF }')
python3 - "$bin/../lib/ndbroker/ndbrokerd-services.so" "$module" "$version" << 'END'
import sys
data = open(sys.argv[1], "rb").read()
old = b"\0" + sys.argv[3].encode() + b"\0"
assert old in data
open(sys.argv[2], "wb").write(data.replace(old, b"\0" + b"9" * (len(old) - 2) + b"\0"))
END
launch
ends_with "and ndbrokerd has $version"

cp "$bin/../lib/ndbroker/ndbrokerd-services.so" "$module"
launch
until_true "the start" broker_ready
expect 0 ndctl status
kill "$broker"
wait "$broker" || fail "the broker did not stop in order"

echo "$checks checks"
