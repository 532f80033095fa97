#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Tries the installed broker under a real systemd, booted as process 1 of namespaces of its own.
set -Eeuo pipefail

usage() {
  cat << 'END'
usage: run.sh [--build DIR] [--restarts N] [GROUP...]
  GROUP       units, restarts, pods, trouble, user, packages; all but packages when none is given.
              packages tries those in DIR/packages (deploy/debian/build.sh --built DIR), otherwise those of ./run.sh --deb
  --build     the build directory whose programs are tried (default: build/release)
  --restarts  how often the group restarts restarts the broker (default: 20)
Prints one line for each check. Exits 0 when all passed, 1 when one failed, 77 when nothing could be tried here.
Root only: it makes namespaces and mounts. Nothing is written to this host's files but below $TMPDIR.
END
}

source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
build=$top/build/release restarts=20 groups=()
while [ $# -gt 0 ]; do
  case $1 in
    -h | --help) usage && exit 0 ;;
    --build) build=$(readlink -f "$2") && shift ;;
    --restarts) restarts=$2 && shift ;;
    units | restarts | pods | trouble | user | packages) groups+=("$1") ;;
    *) usage >&2 && exit 2 ;;
  esac
  shift
done
[ ${#groups[@]} -gt 0 ] || groups=(units restarts pods trouble user)

skip() {
  printf '\n*** NOT TRIED: %s\n*** Nothing is known about the broker under systemd from this run.\n\n' "$1" >&2
  exit 77
}
[ "$(id -u)" -eq 0 ] || skip "the system tests make namespaces and mounts, which only root may; run them as root"
[ -x /lib/systemd/systemd ] || skip "this host has no /lib/systemd/systemd (Debian package systemd)"
unshare --mount --pid --net --uts --ipc --cgroup --fork true 2> /dev/null ||
  skip "this kernel or container does not let root make namespaces"

trap stop_system EXIT
trap 'echo "STOPPED: ${BASH_SOURCE[0]##*/}:$LINENO: $BASH_COMMAND" >&2' ERR
trap 'exit 130' INT
trap 'exit 143' TERM
for group in "${groups[@]}"; do
  say "$group"
  source "$here/group_$group.sh"
  "group_$group"
  stop_system
done
echo "$checks checks, $failures failed"
[ "$failures" -eq 0 ]
