# SPDX-License-Identifier: Apache-2.0
# The broker is restarted and killed while connections of both transports carry data.

group_restarts() {
  prepare_from_host
  install_build
  printf '[[adapter]]\nname = "soft0"\naddresses = ["127.0.0.1"]\n' > "$changes/etc/ndbroker/ndbrokerd.toml"
  start_system /
  eventually 20 is_active
  start_traffic 10 10
  local i
  restart_broker 1
  local before now gap
  sleep 1
  before=$(census)
  inside cp /dev/stdin /run/wire_gap.py < "$here/wire_gap.py"
  inside sh -c 'python3 /run/wire_gap.py 127.0.0.1 4794 > /run/gap.wire 2>&1 & echo $! > /run/gap.pid
    python3 /run/wire_gap.py /run/ndbroker/client/lane.sock > /run/gap.lane 2>&1 & echo $! >> /run/gap.pid'
  for ((i = 2; i <= restarts; i++)); do
    restart_broker "$i"
    [ $((i % 100)) -ne 0 ] || echo "      $i restarts; $(census)"
  done
  inside sh -c 'kill $(cat /run/gap.pid)'
  local name
  for name in wire lane; do
    eventually 5 inside test -s /run/gap.$name
    gap=$(inside cat /run/gap.$name)
    check "nobody who connected to the $name meanwhile was refused: $gap" grep -q 'refused=0 ' <<< "$gap"
  done
  sleep 1
  check "$restarts restarts, every fifth a kill -9: the broker serves" inside ndctl status
  eventually 10 census_is "$before" || true  # Clients of systemd and of the journal come and go.
  now=$(census || true)
  check "descriptors, memfds, sockets and ports are what they were: $before" test "$before" = "$now"
  # A start that waited would show as a failure count in the delay's file.
  check "systemd noticed each kill" test "$(journal -u ndbrokerd.service | grep -c 'code=killed')" -eq $((restarts / 5))
  end_traffic
  report_traffic
}

# start_traffic LOCAL REMOTE: connections through the broker, REMOTE of them from a second broker at 127.0.0.2.
start_traffic() {
  inside systemd-run -q --unit=peer ndbrokerd --dir /run/peer --adapter-address 127.0.0.2
  eventually 10 inside test -S /run/peer/admin.sock
  inside sh -c "nd-traffic $1 $2 /run/peer > /run/traffic 2>&1 & echo \$! > /run/traffic.pid"
  check "$1 connections through shared memory and $2 over TCP are up" eventually 30 inside grep -q '^ready' /run/traffic
}
end_traffic() {
  inside sh -c 'kill $(cat /run/traffic.pid)'
  check "no connection was lost and no message wrong" eventually 20 inside grep -qE 'lost=0 .*wrong=0 ' /run/traffic
}
report_traffic() {
  inside cat /run/traffic | sed 's/^/      /' | tail -3
  check "after each restart the listener accepted again" no_restart_failed
  inside awk -F'[= ]' '/^restart=/ { n++; back += $4; if ($4 > worst) worst = $4; if ($6 > accepts) accepts = $6 }
    END { printf "      %d restarts noticed; sessions back after %.0f ms on average, %.0f ms at most; listener accepts after %.0f ms at most\n",
          n, back / n, worst, accepts }' /run/traffic
}
no_restart_failed() { ! inside grep '^restart=' /run/traffic | grep -v 'status=SUCCESS'; }

# restart_broker NUMBER: in an orderly way, or every fifth time by kill -9; returns when the sessions are back.
restart_broker() {
  local pid
  pid=$(main_pid)
  if [ $(($1 % 5)) -eq 0 ]; then
    inside kill -9 "$pid"
    eventually 20 sh -c "$(declare -f inside property main_pid); first_pid=$first_pid; [ \$(main_pid) != $pid ] && [ \$(main_pid) != 0 ]" ||
      failed "the broker was not started again"
  else
    inside systemctl restart ndbrokerd.service || failed "restart $1"
  fi
  eventually 30 inside grep -q "^restart=$1 " /run/traffic || failed "the sessions are not back after restart $1"
}

census_is() { [ "$(census)" = "$1" ]; }
# Prints the resources that must not grow.
census() {
  local broker fds
  broker=$(host_pid) || return 1
  fds=$(readlink "/proc/$broker"/fd/*) || true  # A descriptor may be closed meanwhile.
  printf 'broker fds=%s memfds=%s sockets=%s; systemd fds=%s memfds=%s; TCP listeners=%s\n' \
    "$(wc -l <<< "$fds")" "$(grep -c memfd <<< "$fds" || true)" "$(grep -c socket <<< "$fds" || true)" \
    "$(ls "/proc/$first_pid/fd" | wc -l)" "$(readlink "/proc/$first_pid"/fd/* | grep -c memfd || true)" \
    "$(inside ss -ltnH | wc -l)"
}
