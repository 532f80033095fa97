#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The first contact of a new user, on a bare Debian 12: ./run.sh --demo and ./test.sh --quick in a fresh
# debootstrap root, by an ordinary user with sudo and by root. Prints wall and processor time of each step. Not a
# part of the usual tests: it downloads a system and builds everything.
# usage (as root): tests/firstcontact/run.sh [--as user|root] [--no-tests] [FOLDER]
#   --as        one of the two (default: both, one after the other, each in a root of its own)
#   --no-tests  only the demo
#   FOLDER      scratch folder, which stays; default: a temporary one, which goes
# Packages come from the sources of this host's apt. Needs debootstrap; the root gets its own mount and process
# namespaces, its own /dev, and for building and running a network of its own.
set -euo pipefail
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../.."
source=$PWD
usage() { sed -n '/^# usage/,/^set/{/^set/!p}' "$0" | cut -c3-; }

who=(user root) tests=1 folder=
while [ $# -gt 0 ]; do
  case $1 in
    --as) who=("$2") && shift ;;
    --no-tests) tests= ;;
    -h | --help) usage && exit 0 ;;
    -*) usage >&2 && exit 2 ;;
    *) folder=$1 ;;
  esac
  shift
done
[ "$(id -u)" -eq 0 ] || { echo "run.sh: a root for debootstrap needs root" >&2; exit 2; }
command -v debootstrap > /dev/null || { echo "run.sh: install debootstrap" >&2; exit 2; }
if [ -z "$folder" ]; then
  folder=$(mktemp -d "${TMPDIR:-/tmp}/ndbroker-first-XXXXXX")
  trap 'rm -rf --one-file-system "$folder"' EXIT
fi
mkdir -p "$folder"
folder=$(readlink -f "$folder")

# The first archive that this host's apt uses.
mirror=$(apt-get indextargets --format '$(SITE) $(REPO_URI)' 'Created-By: Packages' | awk 'NR == 1 { print $2 }')
[ -n "$mirror" ] || { echo "run.sh: apt has no sources on this host" >&2; exit 2; }

# make_root ROOT: a bare system with this host's apt sources, sudo, an ordinary user, and the source tree.
make_root() {
  local root=$1 home=$1/home/newcomer
  debootstrap --variant=minbase bookworm "$root" "$mirror" > "$root.log" 2>&1 || { tail "$root.log"; exit 1; }
  cp -a /etc/apt/sources.list /etc/apt/sources.list.d "$root/etc/apt/" 2> /dev/null || true
  cp -a /usr/share/keyrings/. "$root/usr/share/keyrings/"
  cp -L /etc/resolv.conf /etc/hosts "$root/etc/"
  inside "$root" host 'apt-get -q update && apt-get -q -y --no-install-recommends install sudo' > "$root.log" 2>&1 ||
    { tail "$root.log"; exit 1; }
  chroot "$root" useradd -m -s /bin/bash newcomer
  echo 'newcomer ALL=(ALL) NOPASSWD: ALL' > "$root/etc/sudoers.d/newcomer"
  mkdir "$home/ndbroker"
  (cd "$source" && git ls-files -z | xargs -0 cp --parents -t "$home/ndbroker")
  chroot "$root" chown -R newcomer: /home/newcomer/ndbroker
}

# inside ROOT host|alone COMMAND: in the root, with this host's network or with one of its own.
inside() {
  local root=$1 network=() command=$3
  [ "$2" = host ] || network=(--net)
  unshare --mount --pid --fork --ipc --uts "${network[@]}" bash -c '
    set -e
    root=$1
    mount --make-rprivate /
    mount -t proc proc "$root/proc"
    mount -t sysfs -o ro sysfs "$root/sys"
    mount -t tmpfs -o mode=755 tmpfs "$root/dev"
    mkdir "$root/dev/pts" "$root/dev/shm"
    mount -t tmpfs -o mode=1777 tmpfs "$root/dev/shm"
    mount -t devpts -o newinstance,ptmxmode=0666,mode=620,gid=5 devpts "$root/dev/pts"
    ln -s pts/ptmx "$root/dev/ptmx"
    ln -s /proc/self/fd "$root/dev/fd"
    mknod -m 666 "$root/dev/null" c 1 3
    mknod -m 666 "$root/dev/zero" c 1 5
    mknod -m 666 "$root/dev/full" c 1 7
    mknod -m 666 "$root/dev/random" c 1 8
    mknod -m 666 "$root/dev/urandom" c 1 9
    mknod -m 666 "$root/dev/tty" c 5 0
    [ "$2" = host ] || ip link set lo up
    exec env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 TERM=dumb \
      chroot "$root" /bin/bash -c "$3"' inside "$root" "$2" "$command" < /dev/null
}

# step NAME ROOT NETWORK COMMAND: runs it as $as in the source tree and prints its wall and processor time.
step() {
  local name=$1 root=$2 network=$3 command=$4 times status=0
  times=$root.times
  TIMEFORMAT='%R %U %S'
  { time inside "$root" "$network" "cd /home/newcomer/ndbroker && exec $become bash -c '$command'" \
    > "$root.log" 2>&1 || status=$?; } 2> "$times"
  [ "$status" -eq 0 ] || { tail -n 60 "$root.log"; echo "FAILED: $name as $as ($status)"; exit 1; }
  tail -n 1 "$times" | awk -v name="$name" -v as="$as" '
    { printf "%-5s %-34s %6.1f min wall %6.1f min CPU\n", as, name, $1 / 60, ($2 + $3) / 60 }'
}

for as in "${who[@]}"; do
  root=$folder/$as
  become=
  [ "$as" = root ] || become='setpriv --reuid newcomer --regid newcomer --init-groups env HOME=/home/newcomer'
  make_root "$root"
  # Downloading takes as long as the network does, and is not counted.
  fetch='apt-get -q -y --no-install-recommends -d install $(grep -hv "^#" '
  inside "$root" host "cd /home/newcomer/ndbroker && $fetch deploy/packages.txt)" > "$root.log" 2>&1
  step "packages for building" "$root" host 'source deploy/setup.sh && install_packages'
  step "./run.sh --demo: build and run" "$root" alone './run.sh --demo'
  step "./run.sh --demo: once more" "$root" alone './run.sh --demo'
  [ -n "$tests" ] || continue
  inside "$root" host "cd /home/newcomer/ndbroker && $fetch deploy/packages.txt deploy/packages-test.txt)" > "$root.log" 2>&1
  step "packages for the tests" "$root" host \
    'source deploy/setup.sh && install_packages deploy/packages.txt deploy/packages-test.txt'
  step "./test.sh --quick" "$root" alone './test.sh --quick'
done
echo "first contact works as: ${who[*]}"
