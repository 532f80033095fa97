# SPDX-License-Identifier: Apache-2.0
# A program in a network namespace of its own, as in a container, while the broker of the host restarts.

group_pods() {
  prepare_from_host
  install_build
  printf '[broker]\nforeign-network-namespaces = "serve"\n[[adapter]]\nname = "soft0"\naddresses = ["127.0.0.1"]\n' \
    > "$changes/etc/ndbroker/ndbrokerd.toml"
  start_system /
  eventually 20 is_active
  inside cp /dev/stdin /run/wire_gap.py < "$here/wire_gap.py"
  # The address is one of its loopback interface. The server ends with its broker.
  inside systemd-run -q --unit=pod --property=PrivateNetwork=yes sh -c \
    'ip link set lo up && ip addr add 10.88.0.9/32 dev lo && while :; do ndctl ping --serve 10.88.0.9:7000; done'
  check "a program of a namespace listens" eventually 10 in_pod ndctl ping -c 1 10.88.0.9:7000
  inside systemd-run -q --unit=gap --property=JoinsNamespaceOf=pod.service --property=PrivateNetwork=yes \
    --property=StandardOutput=file:/run/gap.pod python3 /run/wire_gap.py 10.88.0.9 4794
  local i pid
  for i in 1 2 3 4 5; do
    pid=$(main_pid)
    if [ $((i % 2)) -eq 0 ]; then inside kill -9 "$pid"; else inside systemctl restart ndbrokerd.service; fi
    eventually 20 another_broker "$pid" || failed "the broker was not started again"
    eventually 20 in_pod ndctl ping -c 1 10.88.0.9:7000 || failed "the listener of the namespace is not back after restart $i"
  done
  inside systemctl stop gap.service
  eventually 5 inside test -s /run/gap.pod
  check "over five restarts no peer of the namespace was refused: $(inside cat /run/gap.pod)" inside grep -q 'refused=0 ' /run/gap.pod
  check "systemd keeps the sockets of the namespace" test "$(property NFileDescriptorStore)" -ge 3
  inside systemctl stop pod.service
  check "after the last program of the namespace the broker gives them up" eventually 30 store_has 1
}
in_pod() {
  local pod
  pod=$(property MainPID pod.service)
  inside nsenter -t "$pod" -n -- "$@"
}
another_broker() { [ "$(main_pid)" != "$1" ] && [ "$(main_pid)" != 0 ] && is_active; }
store_has() { [ "$(property NFileDescriptorStore)" -eq "$1" ]; }
