#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# First process of the virtual machine: loads the modules, lays a writable layer over the host's root (9p,
# read only) and goes on there with setup.sh.
B=/bin/busybox
$B mount -t proc p /proc
$B mount -t sysfs s /sys
$B mount -t devtmpfs d /dev
for word in $($B cat /proc/cmdline); do
  case $word in vm.*=*) key=${word%%=*}; eval "VM_${key#vm.}='${word#*=}'" ;; esac
done
for module in /modules/*.ko; do $B insmod "$module" 2>/dev/null || echo "init: $module failed"; done
if [ -n "$VM_stock" ]; then $B insmod /siw.ko; else
  $B insmod /siw-fixed.ko fix_first_fpdu=1 fix_mmap_key=1 fix_split_trailer=1 fix_send_race=1 $(echo "$VM_siw" | $B tr ',' ' ')
fi || echo "init: siw failed"
OPTIONS=trans=virtio,version=9p2000.L,msize=524288
$B mount -t 9p -o ro,$OPTIONS,cache=loose hostroot /lower || { echo "init: no host root"; $B poweroff -f; }
$B mount -t tmpfs -o size=75% t /rw
$B mkdir -p /rw/upper /rw/work
$B mount -t overlay -o lowerdir=/lower,upperdir=/rw/upper,workdir=/rw/work o /new || { echo "init: no overlay"; $B poweroff -f; }
cd /new
$B mount -t proc p proc
$B mount -t sysfs s sys
$B mount -t devtmpfs d dev
$B ln -sf /proc/self/fd dev/fd
$B ln -sf /proc/self/fd/0 dev/stdin
$B ln -sf /proc/self/fd/1 dev/stdout
$B ln -sf /proc/self/fd/2 dev/stderr
$B mkdir -p dev/pts dev/shm
$B mount -t devpts d dev/pts 2>/dev/null
$B mount -t tmpfs s dev/shm
$B mount -t tmpfs r run
$B mkdir -p run/lock run/vm
export VM_here VM_share VM_address VM_gateway
$B chroot /new /bin/bash "$VM_here/guest/setup.sh"
$B sync
echo o > /proc/sysrq-trigger
$B sleep 1
$B poweroff -f
