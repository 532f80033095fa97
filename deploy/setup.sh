# SPDX-License-Identifier: Apache-2.0
# Sourced by run.sh and test.sh from the top of the source tree: packages and build.
# Sets `build` to the build directory.

say() { printf '== %s\n' "$*"; }
die() { printf '%s: %s\n' "$(basename "$0")" "$*" >&2; exit 1; }

as_root() {
  if [ "$(id -u)" -eq 0 ]; then
    "$@"
  elif command -v sudo > /dev/null; then
    sudo "$@"
  else
    die "these packages must be installed by root, and there is no sudo here: ${missing[*]}"
  fi
}

# Installs what is missing from deploy/packages.txt (or the list in $1), and says so; nothing otherwise.
install_packages() {
  local list=${1:-deploy/packages.txt} wanted missing=() name installed
  command -v dpkg-query > /dev/null || {
    say "not a Debian system: install what $list lists by hand"
    return
  }
  mapfile -t wanted < <(grep -v '^#' "$list")
  installed=" $(dpkg-query -W -f='${db:Status-Status}:${Package}\n' 2> /dev/null | sed -n 's/^installed://p' | tr '\n' ' ') "
  for name in "${wanted[@]}"; do
    [[ $installed == *" $name "* ]] || missing+=("$name")
  done
  [ ${#missing[@]} -eq 0 ] && return
  say "installing Debian packages: ${missing[*]}"
  # Questions (tshark's about capturing) get their default answer. What apt prints is shown if it fails.
  local log guard=/usr/sbin/policy-rc.d guarded=
  log=$(mktemp)
  # What is installed for tests (Prometheus) is not to be started as a service of this host.
  if [ ! -e "$guard" ]; then
    guarded=1
    printf '#!/bin/sh\nexit 101\n' | as_root tee "$guard" > /dev/null
    as_root chmod 755 "$guard"
  fi
  if ! { as_root env DEBIAN_FRONTEND=noninteractive apt-get -q update &&
    as_root env DEBIAN_FRONTEND=noninteractive apt-get -q -y --no-install-recommends install "${missing[@]}"; } \
    < /dev/null > "$log" 2>&1; then
    cat "$log" >&2
    rm -f "$log"
    [ -z "$guarded" ] || as_root rm -f "$guard"
    die "could not install: ${missing[*]}"
  fi
  rm -f "$log"
  [ -z "$guarded" ] || as_root rm -f "$guard"
}

# A build directory that we may write: build/release, or one of our own when that, or the tree, is another's.
choose_build() {
  build=build/release
  if [ -e "$build" ] && [ ! -w "$build" ] || [ ! -e "$build" ] && ! mkdir -p "$build" 2> /dev/null ||
    [ -e "$build/build.ninja" ] && [ ! -w "$build/build.ninja" ]; then
    build="${XDG_CACHE_HOME:-$HOME/.cache}/ndbroker$(pwd | tr / -)"
    say "$(pwd)/build/release belongs to somebody else; building in $build"
    mkdir -p "$build"
  fi
}

# Configures when needed and builds `$@` (all when empty).
build_targets() {
  local log jobs memory_gib
  choose_build
  log=$build/configure.log
  # A tree that was moved or copied has a build directory that means another one.
  if [ -e "$build/CMakeCache.txt" ] && ! grep -qx "CMAKE_HOME_DIRECTORY:INTERNAL=$(pwd)" "$build/CMakeCache.txt"; then
    say "$build was made for another place; starting afresh"
    rm -rf "${build:?}"
    mkdir -p "$build"
  fi
  if [ ! -e "$build/build.ninja" ]; then
    say "configuring (preset release)"
    cmake --preset release -B "$build" > "$log" 2>&1 || {
      cat "$log" >&2
      die "cmake failed"
    }
  fi
  # Compiling gRPC headers takes up to 1.5 GiB a process.
  jobs=$(nproc)
  memory_gib=$(($(sed -n 's/^MemAvailable: *\([0-9]*\) kB$/\1/p' /proc/meminfo) / 1572864))
  [ "$memory_gib" -ge 1 ] || memory_gib=1
  [ "$jobs" -le "$memory_gib" ] || jobs=$memory_gib
  say "building in $build"
  # NINJA_STATUS keeps the output short where it is not a terminal.
  if [ -t 1 ]; then
    ninja -C "$build" -j "$jobs" "$@" || die "the build failed"
  else
    log=$build/build.log
    ninja -C "$build" -j "$jobs" "$@" > "$log" 2>&1 || {
      grep -v '^\[[0-9]*/[0-9]*\]' "$log" >&2
      die "the build failed"
    }
  fi
  give_back
}

# What root built in a tree that belongs to another user must not stop that user from building.
give_back() {
  local owner
  owner=$(stat -c %u:%g .)
  if [ "$(id -u)" -eq 0 ] && [ "${owner%%:*}" -ne 0 ] && [ -d build ]; then
    chown -R -h "$owner" build
  fi
}
