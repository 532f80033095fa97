#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs the quick tests as an ordinary user when ctest runs as root, which may do things that a user may not.
# usage: ordinary_user.sh BUILD [CTEST-OPTION...]   Exit 77: not root, or that user cannot read BUILD.
set -euo pipefail
build=$(readlink -f "$1") user=65534
[ "$(id -u)" -eq 0 ] || { echo "this user is an ordinary one: every test has run so"; exit 77; }
work=$(mktemp -d /tmp/ndbroker-ordinary-XXXXXX)
trap 'rm -rf "$work"' EXIT
# ctest writes beside the list of its tests, where this user may not.
printf 'subdirs("%s")\n' "$build" > "$work/CTestTestfile.cmake"
chown -R $user:$user "$work"
ordinary() {
  setpriv --reuid=$user --regid=$user --clear-groups --inh-caps=-all --bounding-set=-all \
    env -u TMPDIR -u XDG_RUNTIME_DIR HOME="$work" "$@"
}
ordinary test -x "$build/bin/ndbrokerd" || { echo "uid $user cannot reach $build: a folder above it is closed to other users"; exit 77; }
cd "$work"
# Conformance and crash have entries of their own for what differs by user. The others that are left out judge bytes and
# sources, which are the same for every user, or install into BUILD.
[ $# -gt 1 ] || set -- "$1" -LE '^(slow|conformance|fuzz|crash|integrity)$' -E '^(arrows|os_headers|headers|format|figures|limits.rows|bench.suite_test|fuzz.*|property.*|model.*|client_install_test|Seeds/.*|.*/Worlds.*)$'
ordinary ctest --test-dir "$work" -j2 --output-on-failure --no-tests=error "${@:2}" |
  awk '/ tests passed, / { over = 1 } over || !/^ *(Start +[0-9]+:|[0-9]+\/[0-9]+ Test +#[0-9]+: .*(Passed|Skipped))/'
