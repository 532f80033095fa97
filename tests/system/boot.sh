#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# boot.sh LOWER UPPER: boots the systemd of the root file system LOWER as process 1 of namespaces of its own.
#
# What the system changes goes to UPPER, an empty directory on a tmpfs that the caller prepared. Ends when that
# systemd ends. Nothing of the host is visible but the files below LOWER: its own /dev, /proc, /run, /tmp, host
# name, network (loopback only), processes and cgroup. Root only.
set -euo pipefail
lower=$1 upper=$2

cgroups=/sys/fs/cgroup
[ -e $cgroups/cgroup.procs ] || cgroups=$cgroups/unified  # Version 2 beside version 1.
own=$cgroups/ndbroker-system-$$
mkdir -p "$own/payload"
echo $$ > "$own/payload/cgroup.procs"
mkdir -p "$upper/changes" "$upper/work" "$upper/root"

# With --kill-child the system ends with this script, even when the script is killed.
exec unshare --fork --kill-child --pid --mount --uts --ipc --net --cgroup --propagation private bash -euc '
  lower=$1 upper=$2 root=$2/root
  mount -t overlay -o "lowerdir=$lower,upperdir=$upper/changes,workdir=$upper/work" overlay "$root"
  mount -t proc -o nosuid,nodev,noexec proc "$root/proc"
  mount --bind "$root/proc/sys" "$root/proc/sys"
  mount -o remount,bind,ro,nosuid,nodev,noexec "$root/proc/sys"
  mount -t sysfs -o ro,nosuid,nodev,noexec sysfs "$root/sys"
  mount -t cgroup2 cgroup2 "$root/sys/fs/cgroup"
  mount -t tmpfs -o mode=755 tmpfs "$root/dev"
  for node in null:1:3 zero:1:5 full:1:7 random:1:8 urandom:1:9 tty:5:0; do
    IFS=: read -r name major minor <<< "$node"
    mknod -m 666 "$root/dev/$name" c "$major" "$minor"
  done
  mkdir "$root/dev/pts" "$root/dev/shm"
  mount -t devpts -o newinstance,ptmxmode=0666,mode=620 devpts "$root/dev/pts"
  mount -t tmpfs -o mode=1777 tmpfs "$root/dev/shm"
  ln -s pts/ptmx "$root/dev/ptmx"
  ln -s /proc/self/fd "$root/dev/fd"
  for i in 0:stdin 1:stdout 2:stderr; do ln -s "/proc/self/fd/${i%%:*}" "$root/dev/${i#*:}"; done
  mount -t tmpfs -o mode=755,size=64m tmpfs "$root/run"
  mount -t tmpfs -o mode=1777 tmpfs "$root/tmp"
  mkdir "$root/run/lock" "$root/run/log"
  # A file system of its own, so that the journal still writes when a test fills /run.
  mount -t tmpfs -o mode=755,size=64m tmpfs "$root/run/log"
  hostname ndbroker-test
  ip link set lo up
  cd "$root"
  mkdir -p .former
  pivot_root . .former
  cd /
  umount -l /.former
  exec env -i container=ndbroker PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 \
    /lib/systemd/systemd --unit=multi-user.target --log-target=journal --show-status=0
' boot "$lower" "$upper"
