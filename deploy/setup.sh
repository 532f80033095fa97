# SPDX-License-Identifier: Apache-2.0
# Sourced by run.sh and test.sh from the top of the source tree: packages, build, progress. Sets `build` to the
# build directory.

say() { printf '== %s\n' "$*"; }
die() { printf '%s: %s\n' "$(basename "$0")" "$*" >&2; exit 1; }

# Shows the newest line of file $1 that matches the pattern $2, until it is killed: on a terminal one line that is
# overwritten, otherwise one line a minute.
show_progress() {
  local file=$1 pattern=$2 line columns
  columns=$(tput cols 2> /dev/null || echo 80)
  while :; do
    if [ -t 1 ]; then sleep 0.5; else sleep 60; fi
    line=$(tail -n 20 "$file" 2> /dev/null | tr '\r' '\n' | grep -aE "$pattern" | tail -n 1) || continue
    if [ -t 1 ]; then
      printf '\r\033[K   %s' "${line:0:$((columns - 4))}"
    else
      printf '   %s\n' "$line"
    fi
  done
}

# run_logged LOG PATTERN COMMAND...: runs the command with its output in LOG and shows progress. Returns the exit
# code of the command.
run_logged() {
  local log=$1 pattern=$2 status=0 watcher
  shift 2
  : > "$log"
  show_progress "$log" "$pattern" &
  watcher=$!
  "$@" < /dev/null > "$log" 2>&1 || status=$?
  kill "$watcher" 2> /dev/null || true
  wait "$watcher" 2> /dev/null || true
  [ ! -t 1 ] || printf '\r\033[K'
  return "$status"
}

as_root() {
  if [ "$(id -u)" -eq 0 ]; then
    "$@"
  elif command -v sudo > /dev/null; then
    sudo "$@"
  else
    die "these packages must be installed by root, and there is no sudo here: ${missing[*]}"
  fi
}

apt() { as_root env DEBIAN_FRONTEND=noninteractive LC_ALL=C apt-get "$@"; }

# Installs the missing packages of the lists (default: deploy/packages.txt) after printing their names and size.
# Does nothing when all are installed.
install_packages() {
  local wanted missing=() name installed log status
  [ $# -gt 0 ] || set -- deploy/packages.txt
  command -v dpkg-query > /dev/null || {
    say "not a Debian system: install the packages of $* by hand"
    return
  }
  mapfile -t wanted < <(grep -hv '^#' "$@" | sort -u)
  installed=" $(dpkg-query -W -f='${db:Status-Status}:${Package}\n' 2> /dev/null | sed -n 's/^installed://p' | tr '\n' ' ') "
  for name in "${wanted[@]}"; do
    [[ $installed == *" $name "* ]] || missing+=("$name")
  done
  [ ${#missing[@]} -eq 0 ] && return
  say "missing Debian packages: ${missing[*]}"
  log=$(mktemp)
  # Asked before the output goes to a file, which would hide the question of sudo.
  as_root true
  if ! run_logged "$log" . apt -q update; then
    cat "$log" >&2
    rm -f "$log"
    die "could not read the package lists"
  fi
  # "93 newly installed", "Need to get 80.1 MB", "After this operation, 412 MB ... used".
  apt -q --assume-no --no-install-recommends install "${missing[@]}" < /dev/null 2> /dev/null |
    sed -nE 's/^([0-9]+) upgraded, ([0-9]+) newly installed.*/   \2 packages with all that they need/p
             s/^(Need to get .*)\.$/   \1/p; s/^(After this operation, .*)\.$/   \1/p' || true
  # Questions (of tshark about capturing) get their default answer. The output of apt is shown if it fails. Services
  # that the tests need (Prometheus) must not be started on this host.
  local guard=/usr/sbin/policy-rc.d guarded=
  if [ ! -e "$guard" ]; then
    guarded=1
    printf '#!/bin/sh\nexit 101\n' | as_root tee "$guard" > /dev/null
    as_root chmod 755 "$guard"
  fi
  status=0
  run_logged "$log" '^(Get|Unpacking|Setting up|Processing)' \
    apt -q -y --no-install-recommends install "${missing[@]}" || status=$?
  [ -z "$guarded" ] || as_root rm -f "$guard"
  [ "$status" -eq 0 ] || cat "$log" >&2
  rm -f "$log"
  [ "$status" -eq 0 ] || die "could not install: ${missing[*]}"
}

# Chooses a writable build directory: build/release, or a private one when that, or the tree, belongs to another
# user.
choose_build() {
  build=build/release
  if [ -e "$build" ] && [ ! -w "$build" ] || [ ! -e "$build" ] && ! mkdir -p "$build" 2> /dev/null ||
    [ -e "$build/build.ninja" ] && [ ! -w "$build/build.ninja" ]; then
    build="${XDG_CACHE_HOME:-$HOME/.cache}/ndbroker$(pwd | tr / -)"
    say "$(pwd)/build/release belongs to somebody else; building in $build"
    mkdir -p "$build"
  fi
}

# configure ON|QUICK|OFF: makes the build directory, with these tests. A directory with more tests keeps them; one
# with fewer gets them without rebuilding its objects.
configure() {
  local tests=$1 log=$build/configure.log
  # The build directory of a tree that was moved or copied refers to the old path.
  if [ -e "$build/CMakeCache.txt" ] && ! grep -qx "CMAKE_HOME_DIRECTORY:INTERNAL=$(pwd)" "$build/CMakeCache.txt"; then
    say "$build was made for another place; starting afresh"
    rm -rf "${build:?}"
    mkdir -p "$build"
  fi
  if [ -e "$build/build.ninja" ]; then
    local has
    has=$(sed -n 's/^NDBROKER_TESTS:[A-Z]*=//p' "$build/CMakeCache.txt" 2> /dev/null)
    case $has/$tests in
      OFF/OFF | QUICK/OFF | QUICK/QUICK | ON/*) return 0 ;;
    esac
  fi
  say "configuring (preset release, tests $tests)"
  cmake --preset release -B "$build" -DNDBROKER_TESTS="$tests" -DNDBROKER_UNITY=24 > "$log" 2>&1 || {
    cat "$log" >&2
    die "cmake failed"
  }
}

# build_targets ON|QUICK|OFF TARGET...: configures if needed, with these tests, and builds the targets (all if none
# are given).
build_targets() {
  local tests=$1 log jobs memory_jobs
  shift
  choose_build
  configure "$tests"
  # Compiling gRPC headers takes up to 1.5 GiB for each process.
  jobs=$(nproc)
  memory_jobs=$(($(sed -n 's/^MemAvailable: *\([0-9]*\) kB$/\1/p' /proc/meminfo) / 1572864))
  [ "$memory_jobs" -ge 1 ] || memory_jobs=1
  [ "$jobs" -le "$memory_jobs" ] || jobs=$memory_jobs
  say "building in $build"
  if [ -t 1 ]; then
    ninja -C "$build" -j "$jobs" "$@" || die "the build failed"
  else
    log=$build/build.log
    run_logged "$log" '^\[[0-9]+/[0-9]+\]' ninja -C "$build" -j "$jobs" "$@" || {
      grep -v '^\[[0-9]*/[0-9]*\]' "$log" >&2
      die "the build failed"
    }
  fi
  give_back
}

# A build by root in a tree that belongs to another user must not stop that user from building.
give_back() {
  local owner
  owner=$(stat -c %u:%g .)
  if [ "$(id -u)" -eq 0 ] && [ "${owner%%:*}" -ne 0 ] && [ -d build ]; then
    chown -R -h "$owner" build
  fi
}
