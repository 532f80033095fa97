# SPDX-License-Identifier: Apache-2.0
# A broker of one user, by systemctl --user, beside the system's.

group_user() {
  prepare_from_host
  install_build
  mkdir -p "$changes/etc/systemd/user"
  start_system /
  eventually 20 is_active
  inside useradd --uid 1234 --create-home --shell /bin/sh developer
  inside mkdir -p -m 0700 /run/user/1234
  inside chown developer:developer /run/user/1234
  inside systemd-run -q --unit=manager -p User=developer -p Delegate=yes -E XDG_RUNTIME_DIR=/run/user/1234 -E HOME=/home/developer \
    /lib/systemd/systemd --user
  check "the user's own systemd is up" eventually 20 by_developer systemctl --user is-system-running
  local cursor
  cursor=$(now_cursor)
  check "with the system's broker there, the wire's port is taken" not by_developer systemctl --user start ndbrokerd.service
  check "and the journal says so" eventually 10 said_since "$cursor" "4794"
  by_developer sh -c 'mkdir -p ~/.config/ndbroker && echo "NDBROKERD_OPTIONS=--tcp-port 4795" > ~/.config/ndbroker/environment'
  check "with a port of its own it starts" by_developer systemctl --user restart ndbrokerd.service
  check "in the user's directory" by_developer test -S /run/user/1234/ndbroker/client/lane.sock
  check "with sockets of the user's systemd" by_developer systemctl --user is-active ndbrokerd.socket ndbrokerd-admin.socket
  check "the user administers it" by_developer ndctl status
  check "and finds it without being told" by_developer sh -c 'ndctl status -o json | grep -q /run/user/1234/ndbroker'
  check "connections are made through it" by_developer sh -c 'timeout -s TERM 2 nd-traffic 2 0 - | grep "lost=0 "'
  check "its watchdog and reload work" by_developer systemctl --user reload ndbrokerd.service
  check "it stops" by_developer systemctl --user stop ndbrokerd.socket ndbrokerd-admin.socket ndbrokerd.service
  check "the system's broker is not disturbed" inside ndctl status
}
by_developer() {
  inside setpriv --reuid=developer --regid=developer --init-groups -- env HOME=/home/developer XDG_RUNTIME_DIR=/run/user/1234 "$@"
}
