# SPDX-License-Identifier: Apache-2.0
# Sourced by run.sh: a systemd of its own to try things in, and what a check is.
#
# The root file system is this host's (or that of a directory) with changes kept in memory: nothing here writes
# to the host. One system at a time.

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
top=$(cd "$here/../.." && pwd)
checks=0 failures=0
scratch= boot_pid= first_pid=

say() { printf '== %s\n' "$*"; }

# passed TEXT, failed TEXT: one finished check.
passed() {
  checks=$((checks + 1))
  printf 'ok    %s\n' "$*"
}
failed() {
  checks=$((checks + 1)) failures=$((failures + 1))
  printf 'FAIL  %s\n' "$*"
  show_trouble
}

# check TEXT COMMAND...: passes when the command does.
check() {
  local text=$1 output
  shift
  if output=$("$@" 2>&1); then
    passed "$text"
  else
    failed "$text"
    printf '%s\n' "$output" | sed 's/^/      /' | tail -20
  fi
}

# eventually SECONDS COMMAND...: tries until the command succeeds.
eventually() {
  local most=$1 waited=0 last=$SECONDS
  shift
  until "$@" > /dev/null 2>&1; do
    [ $waited -lt "$most" ] || { "$@"; return; }
    sleep 0.05
    # A look counts as a second at most: the host may stop a virtual machine for a minute.
    [ "$SECONDS" = "$last" ] || waited=$((waited + 1))
    last=$SECONDS
  done
}

# not COMMAND...: succeeds when the command fails.
not() { ! "$@"; }

# ---- The system ------------------------------------------------------------------------------------------

# inside COMMAND...: runs it as root in the system.
inside() { nsenter -t "$first_pid" -m -u -i -n -p -C -- env -i HOME=/root TERM=dumb LC_ALL=C.UTF-8 \
  PATH=/usr/sbin:/usr/bin:/sbin:/bin "$@"; }
# as_user COMMAND...: runs it as an ordinary user there.
as_user() { inside setpriv --reuid=1234 --regid=1234 --clear-groups -- "$@"; }
property() { inside systemctl show -p "$1" --value "${2:-ndbrokerd.service}"; }
is_active() { [ "$(property ActiveState "${1:-ndbrokerd.service}")" = active ]; }
is_state() { [ "$(property ActiveState "$2")" = "$1" ]; }
main_pid() { property MainPID; }
# The number that the daemon has on the host, for /proc and signals.
host_pid() {
  local inner own file pid
  inner=$(main_pid)
  [ "$inner" != 0 ] || return 1
  own=$(readlink "/proc/$first_pid/ns/pid")
  # grep also fails when a process ends during the search.
  for file in $(grep -l "^NSpid:.*[[:space:]]$inner$" /proc/[0-9]*/status 2> /dev/null || true); do
    pid=${file#/proc/}
    pid=${pid%/status}
    if [ "$(readlink "/proc/$pid/ns/pid" || true)" = "$own" ]; then
      echo "$pid"
      return
    fi
  done
  return 1
}
# journal [SINCE-CURSOR-FILE]: messages of the broker's units.
journal() { inside journalctl --no-pager -o cat -q "$@"; }
now_cursor() { inside journalctl --no-pager -q -n 1 -o export | sed -n 's/^__CURSOR=//p'; }
# said_since CURSOR PATTERN: the journal has a line with it.
said_since() { journal --after-cursor="$1" | grep -qE -- "$2"; }

show_trouble() {
  [ -n "$first_pid" ] && kill -0 "$first_pid" 2> /dev/null || return 0
  { inside systemctl --no-pager -n 0 status ndbrokerd.service ndbrokerd.socket ndbrokerd-admin.socket
    journal -n 15 -u ndbrokerd.service; } 2>&1 | sed 's/^/      | /' | cut -c1-200 || true
}

# prepare: an empty system; files may be put into $changes before start_system.
prepare() {
  scratch=$(mktemp -d "${TMPDIR:-/tmp}/ndbroker-system-XXXXXX")
  mount -t tmpfs -o size=2g tmpfs "$scratch"
  changes=$scratch/changes
  mkdir -p "$changes"
}

# The host's own services are not started: /etc/systemd/system of the host is hidden.
prepare_from_host() {
  prepare
  local folder
  for folder in etc/systemd/system etc/systemd/user var/log/journal var/lib/ndbroker etc/ndbroker; do
    mkdir -p "$changes/$folder"
    python3 -c 'import os, sys; os.setxattr(sys.argv[1], "trusted.overlay.opaque", b"y")' "$changes/$folder"
  done
  : > "$changes/etc/fstab"
  printf '[Journal]\nStorage=volatile\nRateLimitBurst=0\n' > "$changes/etc/systemd/journald.conf"
  mask_hardware
}

mask_hardware() {
  local unit
  mkdir -p "$changes/etc/systemd/system"
  # Without a number it is a first boot, with questions.
  printf '%032x\n' 1 > "$changes/etc/machine-id"
  for unit in systemd-udevd.service systemd-udevd-control.socket systemd-udevd-kernel.socket systemd-udev-trigger.service \
    systemd-sysctl.service systemd-modules-load.service proc-sys-fs-binfmt_misc.automount systemd-timesyncd.service \
    systemd-logind.service getty.target apt-daily.timer apt-daily-upgrade.timer dpkg-db-backup.timer e2scrub_all.timer \
    systemd-networkd.service systemd-resolved.service; do
    ln -sf /dev/null "$changes/etc/systemd/system/$unit"
  done
}

# install_build: installs the build directory $build in the places that the packages use.
install_build() {
  local component
  for component in daemon library cli tests; do
    DESTDIR=$changes cmake --install "$build" --prefix /usr --component $component > /dev/null
  done
  mkdir -p "$changes/etc/ndbroker"
  cp "$top/deploy/ndbrokerd.toml" "$changes/etc/ndbroker/"
  local wants=$changes/etc/systemd/system/multi-user.target.wants
  mkdir -p "$wants" "${wants/multi-user/sockets}"
  ln -s /usr/lib/systemd/system/ndbrokerd.service "$wants/"
  ln -s /usr/lib/systemd/system/ndbrokerd{,-admin}.socket "${wants/multi-user/sockets}/"
  touch "$changes/usr"  # systemd-sysusers looks again when /usr is newer than /etc.
}

# start_system LOWER: boots and waits until it is up.
start_system() {
  "$here/boot.sh" "$1" "$scratch" > "$scratch/console" 2>&1 < /dev/null &
  boot_pid=$!
  local i
  for ((i = 0; i < 600; i++)); do
    kill -0 "$boot_pid" 2> /dev/null || break
    first_pid=$(sed -n 's/ .*//p' "/proc/$boot_pid/task/$boot_pid/children" 2> /dev/null)
    if [ -n "$first_pid" ] && [ "$(cat "/proc/$first_pid/comm" 2> /dev/null)" = systemd ] &&
      inside systemctl is-system-running 2> /dev/null | grep -qxE 'running|degraded'; then
      return
    fi
    sleep 0.1
  done
  cat "$scratch/console" >&2
  echo "the system did not boot" >&2
  exit 1
}

stop_system() {
  if [ -n "$boot_pid" ]; then
    kill -9 "$boot_pid" 2> /dev/null || true  # unshare, and with it process 1 and everything below.
    wait "$boot_pid" 2> /dev/null || true
    local cgroup i
    for cgroup in /sys/fs/cgroup/ndbroker-system-"$boot_pid" /sys/fs/cgroup/unified/ndbroker-system-"$boot_pid"; do
      [ -d "$cgroup" ] || continue
      for ((i = 0; i < 50; i++)); do
        find "$cgroup" -depth -type d -exec rmdir {} + 2> /dev/null && break
        sleep 0.1
      done
    done
    boot_pid= first_pid=
  fi
  if [ -n "$scratch" ]; then
    umount -l "$scratch" 2> /dev/null || true
    rmdir "$scratch" 2> /dev/null || true
    scratch=
  fi
}
