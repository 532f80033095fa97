# SPDX-License-Identifier: Apache-2.0
# What goes wrong on real hosts: a sentence in the journal that names the remedy, and no start after start.

group_trouble() {
  prepare_from_host
  install_build
  start_system /
  eventually 20 is_active
  trouble_configuration
  trouble_override
  trouble_second_broker
  trouble_port
  trouble_address
  trouble_full_run
  trouble_read_only_var
  trouble_group
  trouble_downgrade
  trouble_sockets
}

# How often the service was started within the last seconds given.
starts_since() { journal --after-cursor="$1" -o json -u ndbrokerd.service | grep -c '"MESSAGE":"Starting ' || true; }
# tells CURSOR PATTERN TEXT: the journal says it soon.
tells() { check "$3" eventually 30 said_since "$1" "$2"; }
recovers() {
  inside systemctl restart ndbrokerd.service || true
  check "then it serves again" eventually 20 is_active
}

trouble_configuration() {
  local cursor
  cursor=$(now_cursor)
  inside sh -c 'printf "[limits]\nhello = \"5s\"\n" > /etc/ndbroker/ndbrokerd.toml'
  check "a wrong configuration does not start" not inside systemctl restart ndbrokerd.service
  tells "$cursor" 'Control process exited, code=exited, status=2' "because ExecStartPre= refuses it"
  tells "$cursor" 'ndbrokerd.toml:2:1: unknown key "hello" in \[limits\]' "with line and column"
  sleep 10
  local starts
  starts=$(starts_since "$cursor")
  check "within ten seconds it is tried $starts times, not for ever" test "$starts" -le 12
  tells "$cursor" "failed [0-9]+ times in a row; the next start is in [0-9]+ s" "the journal says when it is tried next"
  check "its sockets are still there" inside test -S /run/ndbroker/client/lane.sock
  inside cp /usr/share/doc/ndbroker/examples/ndbrokerd.toml /etc/ndbroker/ndbrokerd.toml
  recovers
}

trouble_override() {
  local cursor
  inside mkdir -p /run/systemd/system/ndbrokerd.service.d
  cursor=$(now_cursor)
  inside sh -c 'printf "[Service]\nExecStart=\nExecStart=/usr/sbin/ndbrokerd --config /etc/ndbroker/ndbrokerd.toml --tcp-prt 5\n" \
    > /run/systemd/system/ndbrokerd.service.d/broken.conf'
  inside systemctl daemon-reload
  check "a broken override does not start" not inside systemctl restart ndbrokerd.service
  tells "$cursor" "--tcp-prt" "the journal names the option"
  inside sh -c 'printf "[Service]\nRestrictAddressFamilies=\nRestrictAddressFamilies=AF_UNIX\n" > /run/systemd/system/ndbrokerd.service.d/broken.conf'
  inside systemctl daemon-reload
  cursor=$(now_cursor)
  inside systemctl restart ndbrokerd.service || true
  tells "$cursor" "No adapter is usable.*RestrictAddressFamilies=" "an override that takes the network away: the journal says what it lacks"
  inside rm -r /run/systemd/system/ndbrokerd.service.d
  inside systemctl daemon-reload
  recovers
}

trouble_second_broker() {
  local cursor
  cursor=$(now_cursor)
  check "a second broker on the same directory does not start" \
    not inside systemd-run -q --wait --unit=second ndbrokerd --dir /run/ndbroker
  tells "$cursor" "belongs to uid" "the journal has the reason"
  cursor=$(now_cursor)
  check "nor one of the same user" \
    not inside systemd-run -q --wait --unit=second-of-user -p User=ndbroker ndbrokerd --dir /run/ndbroker
  tells "$cursor" "another ndbrokerd \(pid $(main_pid)\) already serves /run/ndbroker" "the journal names the pid of the first one"
  check "the first one is not disturbed" is_active
}

trouble_port() {
  local cursor starts
  inside systemctl stop ndbrokerd.service
  inside systemd-run -q --unit=thief python3 -c 'import socket, time
s = socket.socket(); s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1); s.bind(("0.0.0.0", 4794)); s.listen(); time.sleep(600)'
  eventually 10 sh -c "$(declare -f inside); first_pid=$first_pid; inside ss -ltnH 'sport = :4794' | grep -q ."
  cursor=$(now_cursor)
  check "a port that another program has keeps it from starting" not inside systemctl restart ndbrokerd.service
  tells "$cursor" "4794.*(tcp-port|in use|taken)" "the journal names the port"
  sleep 5
  starts=$(starts_since "$cursor")
  check "it is tried $starts times within five seconds" test "$starts" -le 9
  inside systemctl stop thief.service
  check "when the port is free it starts by itself" eventually 25 is_active
}

trouble_address() {
  local cursor
  cursor=$(now_cursor)
  inside sh -c 'printf "[[adapter]]\nname = \"soft0\"\naddresses = [\"192.0.2.77\"]\n" > /etc/ndbroker/ndbrokerd.toml'
  inside systemctl restart ndbrokerd.service || true
  tells "$cursor" "192.0.2.77" "an address that this host does not have yet is named"
  inside ip address add 192.0.2.77/32 dev lo
  check "when the address appears the broker serves it" eventually 25 inside ndctl adapter list -o wide
  check "by that address" eventually 25 sh -c "$(declare -f inside); first_pid=$first_pid; inside ss -ltnH | grep -q 192.0.2.77:4794"
  inside cp /usr/share/doc/ndbroker/examples/ndbrokerd.toml /etc/ndbroker/ndbrokerd.toml
  recovers
}

trouble_full_run() {
  local cursor
  cursor=$(now_cursor)
  inside sh -c 'dd if=/dev/zero of=/run/filler bs=64k count=4096 2> /dev/null; dd if=/dev/zero of=/run/filler2 bs=1 count=65536 2> /dev/null; true'
  inside systemctl restart ndbrokerd.service || true
  check "with a full /run it starts all the same" eventually 20 is_active
  tells "$cursor" "the lease journal cannot be written .*No space left" "the journal says what is not written, and what that means"
  check "or goes on, and connections are made" as_user sh -c 'timeout -s TERM 3 nd-traffic 1 0 - | grep "lost=0 "'
  inside rm -f /run/filler /run/filler2
  recovers
}

trouble_read_only_var() {
  local cursor
  inside mount --bind /var/lib/ndbroker /var/lib/ndbroker
  inside mount -o remount,bind,ro /var/lib/ndbroker
  cursor=$(now_cursor)
  inside systemctl restart ndbrokerd.service || true
  check "with a read-only /var it serves" eventually 20 is_active
  tells "$cursor" "history.*(read-only|Read-only|cannot|readonly)" "and says that the past is not written down"
  inside umount /var/lib/ndbroker
  recovers
}

trouble_group() {
  local cursor
  inside systemctl stop ndbrokerd.socket ndbrokerd-admin.socket ndbrokerd.service
  inside sed -i.saved '/^ndbroker-admin:/d' /etc/group
  cursor=$(now_cursor)
  inside systemctl start ndbrokerd.service || true
  check "without the group ndbroker-admin the broker serves applications" eventually 20 is_active
  tells "$cursor" "admin.sock was not among the sockets of the service manager" "and says that the socket for administrators is missing"
  inside mv /etc/group.saved /etc/group
  inside systemctl stop ndbrokerd.service
  inside rm -f /run/ndbroker/admin.sock /run/ndbroker/metrics.sock
  inside systemctl reset-failed ndbrokerd-admin.socket
  inside systemctl start ndbrokerd.socket ndbrokerd-admin.socket
  recovers
}

# A downgrade: the files that a later version wrote.
trouble_downgrade() {
  local cursor
  inside systemctl stop ndbrokerd.service
  inside python3 -c 'import sqlite3
past = sqlite3.connect("/var/lib/ndbroker/history.db"); past.execute("PRAGMA user_version = 99"); past.close()
with open("/run/ndbroker/journal", "r+b") as leases: leases.seek(7); leases.write(b"9")'
  cursor=$(now_cursor)
  check "after a downgrade it serves" inside systemctl start ndbrokerd.service
  tells "$cursor" "lease journal has the format of another version of ndbrokerd; it is not used" \
    "the journal says that the lease journal is not used"
  tells "$cursor" "the file has version 99 and this program knows versions up to [0-9]+; use a newer program or give another file" \
    "and what to do about the history"
  check "the history of the later version is not touched" test "$(inside python3 -c 'import sqlite3
print(sqlite3.connect("/var/lib/ndbroker/history.db").execute("PRAGMA user_version").fetchone()[0])')" = 99
  inside systemctl stop ndbrokerd.service
  inside sh -c 'rm -f /var/lib/ndbroker/history.db*'
  recovers
}

# A socket unit with a wrong path or type.
trouble_sockets() {
  local cursor
  inside systemctl stop ndbrokerd.socket ndbrokerd-admin.socket ndbrokerd.service
  inside mkdir -p /run/systemd/system/ndbrokerd.socket.d
  inside sh -c 'printf "[Socket]\nListenSequentialPacket=\nListenStream=/run/ndbroker/client/lane.sock\n" > /run/systemd/system/ndbrokerd.socket.d/wrong.conf'
  inside systemctl daemon-reload
  inside systemctl start ndbrokerd.socket
  cursor=$(now_cursor)
  check "a socket of the wrong type keeps it from starting" not inside systemctl start ndbrokerd.service
  tells "$cursor" '\("client"\) is /run/ndbroker/client/lane.sock, a stream socket; it must be a sequential packet socket: use ListenSequentialPacket=' \
    "the journal names the socket and the right setting"
  inside systemctl stop ndbrokerd.socket ndbrokerd.service
  inside rm -r /run/systemd/system/ndbrokerd.socket.d
  inside systemctl daemon-reload
  inside systemctl start ndbrokerd.socket ndbrokerd-admin.socket
  recovers
}
