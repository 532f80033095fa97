# SPDX-License-Identifier: Apache-2.0
# The Debian packages in a bare Debian under a real systemd, with the real dpkg: install, upgrade under traffic,
# remove, purge, reinstall, and beside Debian's own ndctl.

group_packages() {
  local packages=${NDBROKER_PACKAGES:-$build/packages}
  [ -e "$packages" ] || packages=$top/build/deb/packages
  compgen -G "$packages/ndbroker_*.deb" > /dev/null ||
    skip "there are no packages in $packages; ./run.sh --deb makes them (or set NDBROKER_PACKAGES)"
  prepare_debian "$packages"
  prepare
  mask_hardware
  mkdir -p "$changes/srv/now" "$changes/srv/next"
  cp "$packages"/*.deb "$changes/srv/now/"
  make_next_version "$changes/srv/now" "$changes/srv/next"
  start_system "$debian"
  package_install
  package_upgrade
  package_verbs
  package_settings
  package_broken_configuration
  package_remove
  package_names
}

# prepare_debian PACKAGES: a bare Debian with the dependencies of the packages, kept below build/ until the
# list changes.
prepare_debian() {
  debian=${NDBROKER_DEBIAN_ROOT:-$top/build/debian-root}
  local mirror depends
  # rdmacm-utils: a program for ndbroker-verbs.
  depends=$({ for deb in "$1"/*.deb; do dpkg-deb -f "$deb" Depends; done && echo rdmacm-utils; } | tr ',' '\n' |
    sed 's/|.*//; s/(.*//; s/ //g' | grep -vE '^(lib)?ndbroker|^$' | sort -u)
  [ "$(cat "$debian/complete" 2> /dev/null)" != "$depends" ] || return 0
  command -v debootstrap > /dev/null || skip "debootstrap is missing (Debian package debootstrap)"
  say "making a bare Debian in $debian"
  [ ! -e "$debian" ] || [ -z "${NDBROKER_DEBIAN_ROOT:-}" ] || skip "$debian is not for these packages; remove it"
  rm -rf "$debian"
  mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' | grep '/debian/$' | head -1)
  debootstrap --variant=minbase --include=systemd,systemd-sysv,dbus,iproute2,procps,python3-minimal bookworm "$debian" ${mirror:+"$mirror"} \
    > "$debian.log" 2>&1 || { tail -5 "$debian.log"; skip "debootstrap failed; see $debian.log"; }
  # debootstrap made a /dev there; nothing of the host is mounted.
  cp /etc/resolv.conf "$debian/etc/"
  # shellcheck disable=SC2086
  { chroot "$debian" apt-get -q update && chroot "$debian" env DEBIAN_FRONTEND=noninteractive apt-get -q -y --no-install-recommends install $depends &&
    chroot "$debian" apt-get -q -y --no-install-recommends --download-only install ndctl; } >> "$debian.log" 2>&1 ||
    { tail -5 "$debian.log"; skip "the packages' dependencies could not be installed; see $debian.log"; }
  echo "$depends" > "$debian/complete"
}

# make_next_version FROM TO: the same packages as version 0.1.0-2 (or whatever is one more).
make_next_version() {
  local deb folder version
  for deb in "$1"/*.deb; do
    folder=$(mktemp -d "$scratch/next-XXXXXX")
    dpkg-deb -R "$deb" "$folder"
    version=$(dpkg-deb -f "$deb" Version)
    sed -i "s/^Version: .*/Version: $version.1/; s/(= $version)/(= $version.1)/g" "$folder/DEBIAN/control"
    dpkg-deb -Znone --root-owner-group -b "$folder" "$2/" > /dev/null
    rm -rf "$folder"
  done
}

apt() { inside env DEBIAN_FRONTEND=noninteractive apt-get -q -y -o Dpkg::Options::=--force-confold --no-install-recommends --allow-downgrades "$@"; }
in_folder() { (cd "$changes/srv/$1" && for name in "${@:2}"; do ls "$PWD/${name}_"*.deb; done) | sed "s,^$changes,,"; }
# install_version now|next PACKAGE...
install_version() {
  # shellcheck disable=SC2046
  apt install $(in_folder "$@")
}
installed() { [ "$(inside dpkg-query -W -f '${db:Status-Status}' "$1" 2> /dev/null)" = installed ]; }
source "$here/group_units.sh"  # doctor_says
all_packages="ndbroker ndbroker-cli libndbroker1 ndbroker-tests"

package_install() {
  # shellcheck disable=SC2086
  check "apt install ./ndbroker_*.deb and its companions" install_version now $all_packages libndbroker-grpc0 libndbroker-dev ndbroker-dashboards
  check "and a broker runs" is_active
  check "ndbctl reaches it" inside ndbctl status
  check "it is enabled at boot" inside systemctl is-enabled ndbrokerd.service ndbrokerd.socket ndbrokerd-admin.socket
  check "an ordinary user makes connections" as_user sh -c 'timeout -s TERM 2 nd-traffic 2 0 - | grep "lost=0 "'
  check "doctor knows the service, the packages and the versions" doctor_says 'PASS  service .*ndbrokerd.service' \
    "PASS  packages .*ndbroker $(inside dpkg-query -W -f '${Version}' ndbroker)" 'PASS  versions .*libndbroker'
  check "every file is as it was packed (dpkg --verify)" test -z "$(inside dpkg --verify ndbroker ndbroker-cli libndbroker1)"
  check "the configuration is a conffile with every key commented" sh -c \
    "$(declare -f inside); first_pid=$first_pid; ! inside grep -qE '^[a-z]' /etc/ndbroker/ndbrokerd.toml && inside dpkg-query -W -f '\${Conffiles}' ndbroker | grep -q ndbrokerd.toml"
}

package_upgrade() {
  local pid before
  inside sh -c 'printf "[[adapter]]\nname = \"soft0\"\naddresses = [\"127.0.0.1\"]\n" >> /etc/ndbroker/ndbrokerd.toml'
  inside systemctl restart ndbrokerd.service
  start_traffic 10 10
  pid=$(main_pid)
  before=$(inside stat -c %i /run/ndbroker/client/lane.sock)
  # shellcheck disable=SC2086
  check "upgrade under traffic" install_version next $all_packages
  check "the new broker runs" eventually 10 is_active
  check "in a new process" not test "$(main_pid)" = "$pid"
  check "behind the same sockets" test "$(inside stat -c %i /run/ndbroker/client/lane.sock)" = "$before"
  check "the edited configuration stayed" inside grep -q '^addresses' /etc/ndbroker/ndbrokerd.toml
  eventually 20 inside grep -q "^restart=1 " /run/traffic || failed "the sessions are not back"
  # shellcheck disable=SC2086
  check "downgrade under traffic" install_version now $all_packages
  check "the old broker runs" eventually 10 is_active
  eventually 20 inside grep -q "^restart=2 " /run/traffic || failed "the sessions are not back"
  end_traffic
  report_traffic
}
source "$here/group_restarts.sh"

# Programs of Debian that know nothing of the broker.
package_verbs() {
  check "without ndbroker-verbs, ndbctl run names the package" grep "install the package ndbroker-verbs" \
    <<< "$(inside ndbctl run -- rping -s 2>&1 || true)"
  check "apt installs it" install_version now ndbroker-verbs
  inside systemd-run -q --unit=rping ndbctl run -- rping -s -a 127.0.0.1 -p 7200 -C 10
  check "rping connects through the broker" eventually 20 inside ndbctl run -- rping -c -a 127.0.0.1 -p 7200 -C 10
  check "and is removed" apt remove ndbroker-verbs
}

# An upgrade does not restart a broker into a configuration with a mistake.
package_broken_configuration() {
  local pid said
  inside cp /etc/ndbroker/ndbrokerd.toml /tmp/configuration
  eventually 20 is_active
  pid=$(main_pid)
  inside sh -c 'printf "[core]\nmax-baklog = 3\n" >> /etc/ndbroker/ndbrokerd.toml'
  said=$(install_version now ndbroker 2>&1 || true)
  check "an upgrade with a mistake in the configuration says that the broker was not restarted" \
    grep "was not restarted, because of the errors above" <<< "$said"
  check "installs every package whole" test -z "$(inside dpkg --audit)"
  check "and the broker that ran still does" test "$(main_pid)" = "$pid"
  inside cp /tmp/configuration /etc/ndbroker/ndbrokerd.toml
  check "with the mistake corrected it restarts" inside systemctl restart ndbrokerd.service
}

package_settings() {
  inside systemctl stop peer.service
  inside systemctl disable --now ndbrokerd.service ndbrokerd.socket ndbrokerd-admin.socket 2> /dev/null
  check "an upgrade of a broker that the administrator stopped" install_version next ndbroker
  check "does not start it" is_state inactive ndbrokerd.service
  check "and leaves it disabled" not inside systemctl is-enabled ndbrokerd.service
  inside systemctl enable --now ndbrokerd.service ndbrokerd.socket ndbrokerd-admin.socket 2> /dev/null
}

package_remove() {
  check "remove" apt remove ndbroker
  check "nothing runs" sh -c "$(declare -f inside); first_pid=$first_pid; ! inside pgrep -x ndbrokerd"
  check "no socket is open" not inside test -S /run/ndbroker/admin.sock
  check "the configuration stayed" inside grep -q '^addresses' /etc/ndbroker/ndbrokerd.toml
  check "install again" install_version now ndbroker
  check "it runs again, with the old configuration" is_active
  check "purge" apt purge ndbroker ndbroker-tests
  check "nothing is left but the user" no_leftovers
  check "install after the purge" install_version now ndbroker
  check "a broker runs" is_active
}

# Prints leftovers that the remaining packages (library, ndbroker-cli) do not explain.
no_leftovers() {
  local left
  left=$(inside find / -xdev -name '*ndbroker*' -not -path '/proc/*' -not -path '/srv/*' \
    -not -path '/usr/lib/*/libndbroker*' -not -path '/usr/*/libndbroker*' -not -path '/var/lib/dpkg/*' -not -path '/usr/share/doc/*' -not -path '/usr/include/*' \
    -not -path '/usr/lib/ndbroker*' -not -path '/usr/share/ndbroker*' -not -path '/usr/lib/*/cmake/*' -not -path '/usr/lib/*/pkgconfig/*' \
    -not -path '/var/log/*' -not -path '/var/cache/*' -not -path '/sys/*' 2> /dev/null)
  [ -z "$left" ] || { echo "$left" && return 1; }
}

# Debian's ndctl(1) administers non-volatile memory and has the name.
package_names() {
  check "Debian's ndctl installs beside ndbroker-cli" apt install ndctl
  check "each has its own names" sh -c "$(declare -f inside); first_pid=$first_pid
    inside dpkg -S /usr/bin/ndctl | grep -q '^ndctl:' && inside dpkg -S /usr/bin/ndbctl | grep -q '^ndbroker-cli:' && inside ndctl --version | grep -q '^7'"
  check "ours works under both of its paths" inside sh -c 'ndbctl status && PATH=/usr/lib/ndbroker/bin:$PATH ndctl status'
  local deb
  deb=$(in_folder now ndbroker-ndctl)
  check "dpkg refuses ndbroker-ndctl beside it" not inside dpkg -i "$deb"
  inside dpkg --purge ndbroker-ndctl > /dev/null 2>&1 || true
  check "apt installs it in its place" apt install "$deb"
  check "then Debian's is gone" not installed ndctl
  check "and ndctl is ours" inside sh -c 'ndctl status && test "$(readlink -f /usr/bin/ndctl)" = /usr/lib/ndbroker/bin/ndctl'
  check "Debian's takes the name back when it is installed" apt install ndctl
  check "and ours is still there as ndbctl" inside ndbctl status
}
