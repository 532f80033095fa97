#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ndctl capture of a real connection between two brokers: tshark decodes it as iWARP from the first byte. For a
# connection through shared memory ndctl reports that it has no wire.
source "$(dirname "$0")/lib.sh"
command -v tshark > /dev/null || exit 77
port=$(free_port)
brokers=()
for i in 2 3; do
  "$bin/ndbrokerd" --dir "$work/b$i" --adapter-address 127.0.0.$i --tcp-port "$port" > "$work/b$i.out" 2>> "$work/broker.log" &
  brokers+=($!)
  until_true "a broker's start" grep -q '^READY ' "$work/b$i.out"
done
broker=${brokers[0]}
export NDBROKER_DIR=$work/b2

expect 2 ndctl capture
expect 3 ndctl capture no-such-connection -w "$work/none.pcap"
expect 3 ndctl capture --adapter no-such -w "$work/none.pcap"

# Root without the capability is an ordinary user for capturing: ndctl fails and writes no file.
if [ "$(id -u)" -eq 0 ] && command -v setpriv > /dev/null; then
  expect 5 setpriv --bounding-set=-net_raw --inh-caps=-net_raw "$bin/ndctl" capture --filter tcp -w "$work/none.pcap"
  contains "$err" "CAP_NET_RAW"
  [ ! -e "$work/none.pcap" ] || fail "a file was made"
fi

"$bin/ndctl" capture -w "$work/all.pcap" > "$work/capture.out" 2> "$work/capture.err" &
capturing=$!
captures() {
  if ! kill -0 "$capturing" 2> /dev/null; then
    cat "$work/capture.err"
    grep -q 'packet sockets' "$work/capture.err" && exit 77
    fail "the capture ended"
  fi
  [ -s "$work/all.pcap" ]
}
until_true "the capture's start" captures
expect 2 ndctl capture --filter 'tcp prot 4' -w "$work/none.pcap"
"$bin/ndctl" --address "$work/b3" ping --serve 127.0.0.3:7000 > "$work/serve.out" 2>&1 &
listens() { [ "$("$bin/ndctl" --address "$work/b3" listener list -o name | wc -l)" -eq 1 ]; }
until_true "the listener" listens
expect 0 ndctl ping 127.0.0.3:7000 --count 3
complete() { [ "$(tshark -r "$work/all.pcap" -Y 'tcp.flags.fin == 1' 2> /dev/null | wc -l)" -ge 2 ]; }
until_true "the goodbyes in the file" complete
kill -INT "$capturing"
wait "$capturing"
contains "$(cat "$work/capture.out")" "packets"
dissect() { tshark -r "$work/all.pcap" --disable-protocol rpcordma --disable-protocol smb_direct "$@" 2> /dev/null; }
[ "$(dissect -Y iwarp_mpa.req | wc -l)" -ge 1 ] || fail "no MPA request: $(dissect)"
[ "$(dissect -Y iwarp_mpa.rep | wc -l)" -ge 1 ] || fail "no MPA reply"
[ "$(dissect -Y iwarp_rdma | wc -l)" -ge 6 ] || fail "too few RDMAP messages"
[ -z "$(dissect -Y _ws.malformed)" ] || fail "malformed: $(dissect -Y _ws.malformed)"
checks=$((checks + 4))

# One connection that stays, and one in shared memory, which has no wire.
"$bin/ndctl" ping 127.0.0.3:7000 --count 100000000 > "$work/ping.out" 2>&1 &
until_true "the connection" count_is 1 connection list --filter state=Connected
id=$(ndctl connection list --filter state=Connected -o name)
expect 0 ndctl capture "$id" -w "$work/one.pcap" --count 20 --seconds 20
contains "$err" "plain TCP"
[ "$(tshark -r "$work/one.pcap" 2> /dev/null | wc -l)" -ge 20 ] || fail "too few packets"
"$bin/ndctl" ping --serve 127.0.0.2:7001 > "$work/serve2.out" 2>&1 &
until_true "the listener here" count_is 1 listener list
"$bin/ndctl" ping 127.0.0.2:7001 --count 100000000 > "$work/ping2.out" 2>&1 &
until_true "the local connection" count_is 2 connection list --filter transport=local --filter state=Connected
id=$(ndctl connection list --filter transport=local -o name | head -1)
expect 3 ndctl capture "$id" -w "$work/local.pcap"
contains "$err" "shared memory"
done_well
