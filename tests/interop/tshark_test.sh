#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Captures wire_exchange on the loopback interface of a network namespace of its own and checks them with tshark: no
# malformed frame, no bad CRC, and exactly the frames that were sent. Usage: tshark_test.sh WIRE_EXCHANGE
set -eu
program=$1
skip() { echo "skipped: $1"; exit 77; }
command -v tshark >/dev/null || skip "no tshark"
command -v tcpdump >/dev/null || skip "no tcpdump"
command -v unshare >/dev/null || skip "no unshare"
command -v ip >/dev/null || skip "no ip"
if [ "${2:-}" != inside ]; then
  unshare -n true 2>/dev/null || skip "no right to make a network namespace"
  exec unshare -n "$0" "$program" inside
fi
ip link set lo up

work=$(mktemp -d)
capture=
trap '[ -z "$capture" ] || kill "$capture" 2>/dev/null || true; rm -rf "$work"' EXIT
# Waits for a condition, at most 20 seconds.
await() { n=0; until eval "$1"; do n=$((n + 1)); [ $n -lt 200 ] || { echo "timed out: $1"; exit 1; }; sleep 0.1; done; }

# The buffer is divided into slots of the snapshot length, so the default size holds few packets.
tcpdump -i lo -s 65535 -B 65536 -U --immediate-mode -w "$work/wire.pcap" 2>"$work/tcpdump.err" &
capture=$!
await 'grep -q "listening on" "$work/tcpdump.err" || ! kill -0 $capture 2>/dev/null'
kill -0 $capture 2>/dev/null || skip "tcpdump cannot capture: $(cat "$work/tcpdump.err")"
"$program" >"$work/sent"
await 'grep -aq ndbroker-end-of-exchange "$work/wire.pcap"'
kill $capture && wait $capture 2>/dev/null || true
capture=

# Disables the heuristics that would take payloads of Sends for other protocols, and ports of other protocols (44818,
# for example), which the kernel may choose.
dissect() {
  tshark -r "$work/wire.pcap" -o tcp.try_heuristic_first:TRUE --disable-protocol rpcordma --disable-protocol smb_direct "$@" 2>/dev/null
}
# Counts the occurrences of a value of a field; one packet can hold several frames.
count() { dissect -Y "$1" -T fields -e "$1" | tr ',' '\n' | grep -cx -- "$2" || true; }

failed=0
expect() {
  if [ "$2" != "$3" ]; then echo "FAILED: $1: tshark sees $2, sent $3"; failed=1; else echo "ok: $1: $2"; fi
}
sent() { awk -v name="$1" '$1 == name { n = $2 } END { print n + 0 }' "$work/sent"; }

dissect -V >"$work/verbose"
expect "malformed frames" "$(grep -c 'Malformed' "$work/verbose" || true)" 0
expect "bad CRCs" "$(grep -c 'Bad CRC' "$work/verbose" || true)" 0
[ "$(grep -c 'Good CRC' "$work/verbose")" -gt 0 ] || { echo "FAILED: no CRC was checked"; failed=1; }
for opcode in 0 1 2 3 4 5 6 7 10 11; do
  expect "RDMAP opcode $opcode" "$(count iwarp_rdma.opcode "$(printf '0x%02x' $opcode)")" "$(sent opcode$opcode)"
done
# Each exchange has one FetchAdd of 5 and one CompareSwap of 5 for 14, answered by 9.
atomics=$(($(sent opcode10) / 2))
for field in add_data=5 add_mask=0x0000000000000000 swap_data=5 swap_mask=0xffffffffffffffff compare_data=14 \
             compare_mask=0xffffffffffffffff; do
  expect "atomic $field" "$(count iwarp_rdma.atomic.${field%%=*} "${field#*=}")" "$atomics"
done
expect "atomic answers" "$(count iwarp_rdma.atomic.original_remote_data_value 9)" "$(sent opcode11)"
for revision in 1 2; do
  requests=$(dissect -Y "iwarp_mpa.req && iwarp_mpa.rev == $revision" | wc -l)
  replies=$(dissect -Y "iwarp_mpa.rep && iwarp_mpa.rev == $revision" | wc -l)
  expect "MPA requests of revision $revision" "$requests" "$(sent request$revision)"
  expect "MPA replies of revision $revision" "$replies" "$(sent reply$revision)"
done
expect "MPA rejections" "$(dissect -Y 'iwarp_mpa.rep && iwarp_mpa.rej_flag == 1' | wc -l)" "$(sent reject)"
exit $failed
