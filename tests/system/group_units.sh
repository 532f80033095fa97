# SPDX-License-Identifier: Apache-2.0
# The units as they are installed: boot, sandbox, activation, reload, watchdog.

group_units() {
  prepare_from_host
  install_build
  local before=$SECONDS
  start_system /
  unit_boot
  unit_sandbox
  unit_activation
  unit_reload
  unit_watchdog
}

unit_boot() {
  check "the broker is active after boot" eventually 20 is_active
  check "its sockets were there before it" socket_was_first
  check "it says what it does (StatusText)" grep -q "^Serving /run/ndbroker" <(property StatusText)
  check "root administers it" inside ndctl status
  check "an ordinary user makes connections" as_user sh -c 'timeout -s TERM 2 nd-traffic 2 0 - | grep "lost=0 "'
  check "an ordinary user does not administer it" not as_user ndctl status
  check "doctor knows the service and its sandbox" doctor_says 'PASS  service .*ndbrokerd.service' 'PASS  sandbox .*system calls filtered'
  check "nothing failed at boot" test "$(inside systemctl --failed --no-legend | wc -l)" -eq 0
}

# doctor_says PATTERN...: each is in what doctor prints; its exit code is another matter.
doctor_says() {
  local report pattern
  report=$(inside sh -c 'if command -v ndbctl > /dev/null; then ndbctl doctor; else ndctl doctor; fi' || true)
  for pattern in "$@"; do
    grep -qE "$pattern" <<< "$report" || { echo "$report" && return 1; }
  done
}

socket_was_first() {
  local socket service
  socket=$(property ActiveEnterTimestampMonotonic ndbrokerd.socket)
  service=$(property ExecMainStartTimestampMonotonic)
  [ "$socket" -gt 0 ] && [ "$socket" -lt "$service" ]
}

unit_sandbox() {
  local status
  status=$(cat "/proc/$(host_pid)/status")
  check "it runs as its own user" test "$(inside id -u ndbroker)" = "$(sed -n 's/^Uid:\t\([0-9]*\).*/\1/p' <<< "$status")"
  check "with CAP_IPC_LOCK and nothing else" grep -q "^CapEff:.*0000000000004000$" <<< "$status"
  check "with a filter of system calls" grep -q "^Seccomp:.2$" <<< "$status"
  check "its first thread is ahead of applications" [ "$(ps -o nice= -L "$(host_pid)" | sort -nu | head -1 | tr -d ' ')" = -10 ]
  check "only that one" [ "$(ps -o nice= -L "$(host_pid)" | grep -c -- -10)" = 1 ]
  check "the thread that serves is not" [ "$(ps -o nice=,comm= -L "$(host_pid)" | awk '$2 == "nd-loop" {print $1}')" = 0 ]
  check "without new privileges" grep -q "^NoNewPrivs:.1$" <<< "$status"
  check "its files are correct (systemd-analyze verify)" inside systemd-analyze verify --man=no ndbrokerd.service
  check "its exposure is at most 2.0: $(exposure)" inside systemd-analyze security --threshold=20 ndbrokerd.service
  inside mkdir -p /run/systemd/system/ndbrokerd.service.d
  inside cp "/usr/share/doc/ndbroker/examples/software-only.conf" /run/systemd/system/ndbrokerd.service.d/
  inside systemctl daemon-reload
  check "at most 1.5 with software-only.conf: $(exposure)" inside systemd-analyze security --threshold=15 ndbrokerd.service
  check "it serves with software-only.conf" inside systemctl restart ndbrokerd.service
  check "doctor names what changed the unit" doctor_says 'service .*changed by /run/systemd/system/ndbrokerd.service.d/software-only.conf'
  check "without any capability" grep -q "^CapEff:.*0000000000000000$" "/proc/$(host_pid)/status"
  check "and connections are made" as_user sh -c 'timeout -s TERM 2 nd-traffic 2 0 - | grep "lost=0 "'
  inside rm -r /run/systemd/system/ndbrokerd.service.d
  inside systemctl daemon-reload
  inside systemctl restart ndbrokerd.service
}
exposure() { inside systemd-analyze security --no-pager ndbrokerd.service | sed -n 's/.*service: \([0-9.]*\).*/\1/p'; }

unit_activation() {
  inside systemctl stop ndbrokerd.socket ndbrokerd-admin.socket ndbrokerd.service
  check "stopping all three ends it" is_state inactive ndbrokerd.service
  check "then nobody answers" not inside ndctl status
  check "the sockets start without the broker" inside systemctl start ndbrokerd.socket ndbrokerd-admin.socket
  check "which is still off" is_state inactive ndbrokerd.service
  check "the first administrator starts it" inside ndctl status
  check "now it is active" is_active
  inside systemctl stop ndbrokerd.service
  check "the first application starts it, too" as_user sh -c 'timeout -s TERM 3 nd-traffic 1 0 - | grep "lost=0 "'
  check "its directory stayed when it stopped" inside test -S /run/ndbroker/admin.sock
  check "the four sockets are systemd's" inherited_sockets
  check "start returns when it serves, not before" inside sh -c \
    'for i in 1 2 3 4 5; do
       systemctl restart ndbrokerd.service && journalctl --sync &&
         journalctl -q -o cat _SYSTEMD_INVOCATION_ID="$(systemctl show -P InvocationID ndbrokerd.service)" |
         grep -q "serves /run" || exit 1
     done'
}
inherited_sockets() {
  local broker pid
  broker=$(host_pid)
  for name in admin.sock metrics.sock lane.sock broker.sock; do
    # Field 7 is the inode; both processes have a descriptor of it.
    pid=$(awk -v name="/$name" 'index($8, name) && $6 == "01" { print $7; exit }' "/proc/$broker/net/unix")
    [ -n "$pid" ] || return 1
    readlink "/proc/$first_pid"/fd/* | grep -q "socket:\[$pid\]" || return 1
    readlink "/proc/$broker"/fd/* | grep -q "socket:\[$pid\]" || return 1
  done
}

unit_reload() {
  local cursor pid
  pid=$(main_pid)
  cursor=$(now_cursor)
  inside sh -c 'printf "[broker]\nlog-level = \"debug\"\n" > /etc/ndbroker/ndbrokerd.toml'
  check "reload takes a good file" inside systemctl reload ndbrokerd.service
  check "and says what took effect" eventually 5 said_since "$cursor" "configuration reloaded from /etc/ndbroker/ndbrokerd.toml: in effect now: broker.log-level = debug"
  check "it took effect" eventually 5 sh -c "$(declare -f inside); first_pid=$first_pid; inside ndctl config show | grep -q 'log-level.*debug'"
  cursor=$(now_cursor)
  inside sh -c 'printf "[broker]\nlog-level = \"info\"\n[core]\nmax-baklog = 3\n" > /etc/ndbroker/ndbrokerd.toml'
  check "reload refuses a bad file" not inside systemctl reload ndbrokerd.service
  check "with line and column" eventually 5 said_since "$cursor" 'ndbrokerd.toml:4:1: unknown key "max-baklog"'
  check "the broker goes on" is_active
  check "in the same process" test "$(main_pid)" = "$pid"
  cursor=$(now_cursor)
  inside kill -HUP "$pid"
  check "SIGHUP refuses it, too" eventually 5 said_since "$cursor" "reload refused, the old configuration stays"
  check "and systemctl status shows it" eventually 5 grep -q "reload refused" <(property StatusText)
  inside cp /usr/share/doc/ndbroker/examples/ndbrokerd.toml /etc/ndbroker/ndbrokerd.toml
  inside systemctl reload ndbrokerd.service
  check "the unit is active, not reloading" eventually 5 is_active
}

unit_watchdog() {
  local cursor broker pid
  inside mkdir -p /run/systemd/system/ndbrokerd.service.d
  inside sh -c 'printf "[Service]\nWatchdogSec=2s\n" > /run/systemd/system/ndbrokerd.service.d/watchdog.conf'
  inside systemctl daemon-reload
  inside systemctl restart ndbrokerd.service
  pid=$(main_pid) broker=$(host_pid)
  sleep 4
  check "the watchdog lets a healthy broker live" test "$(main_pid)" = "$pid"
  inside sh -c 'nd-traffic 2 0 - > /run/traffic 2>&1 & echo $! > /run/traffic.pid'
  eventually 10 inside grep -q ready /run/traffic
  cursor=$(now_cursor)
  python3 "$here/stop_thread.py" "$broker" nd-loop &
  local stopper=$!
  check "it kills a broker whose loop stands still" eventually 20 said_since "$cursor" "Watchdog timeout"
  kill "$stopper" 2> /dev/null || true
  wait "$stopper" 2> /dev/null || true
  check "the broker had said which thread it was" said_since "$cursor" "a thread does not answer: loop; the watchdog"
  check "which is started again" eventually 10 is_active
  check "in another process" not test "$(main_pid)" = "$pid"
  eventually 10 inside grep -q "status=SUCCESS" /run/traffic || true
  inside sh -c 'kill $(cat /run/traffic.pid)'
  check "no connection was lost" eventually 10 inside grep -q "lost=0 .*wrong=0 " /run/traffic
  inside rm -r /run/systemd/system/ndbrokerd.service.d
  inside systemctl daemon-reload
  inside systemctl restart ndbrokerd.service
}
