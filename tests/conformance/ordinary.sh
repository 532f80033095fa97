#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Runs the cases that differ by user as an ordinary user, also when ctest runs as root.
# usage: ordinary.sh PROGRAM [ARGUMENT...]   Exit 77: this user cannot read the program.
set -eu
[ "$(id -u)" = 0 ] || exec "$@"
command -v setpriv > /dev/null || { echo "setpriv (util-linux) is not installed"; exit 77; }
ordinary() { setpriv --reuid=65534 --regid=65534 --clear-groups --inh-caps=-all --bounding-set=-all env -u TMPDIR HOME=/nonexistent "$@"; }
ordinary test -x "$1" || { echo "uid 65534 cannot reach $1: a folder above it is closed to other users"; exit 77; }
cd /
ordinary "$@"
