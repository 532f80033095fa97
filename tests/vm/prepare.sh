#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# prepare.sh [--check]: everything the virtual machine needs, built once, outside the repository.
#
#   $NDBROKER_VM_CACHE (default ${XDG_CACHE_HOME:-~/.cache}/ndbroker-vm) holds afterwards
#     vmlinux    Debian's own kernel, uncompressed (booted by PVH)
#     initrd.gz  busybox, the modules that reach the host's root over 9p, the RDMA modules
#     siw.ko     soft-iWARP as Debian's kernel source has it (Debian does not build it)
#     siw-fixed.ko  the same with its known defects repaired (see fix_siw below)
#   No kernel package is installed on the host: they are downloaded, unpacked into the cache and deleted.
#   Exit 0: ready. 3: this machine cannot have it (no apt, no network, no QEMU); the reason is on stderr.
set -euo pipefail
HERE=$(cd "$(dirname "$0")" && pwd)
CACHE=${NDBROKER_VM_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/ndbroker-vm}
RECIPE=$(cat "$0" "$HERE/guest/init.sh" "$HERE/fix_siw.py" "$HERE/tsc_khz.c" | sha256sum | cut -c1-16)

say() { printf 'vm: %s\n' "$*" >&2; }
cannot() { say "$*"; exit 3; }

[ -s "$CACHE/recipe" ] && [ "$(cat "$CACHE/recipe")" = "$RECIPE" ] && command -v qemu-system-x86_64 >/dev/null && exit 0
[ "${1:-}" = --check ] && exit 1

PACKAGES="qemu-system-x86 busybox-static kmod cpio xz-utils gcc make libc6-dev libelf1 python3 iproute2
          ibverbs-providers ibverbs-utils rdmacm-utils perftest"
command -v apt-get >/dev/null && command -v dpkg-query >/dev/null || cannot "needs Debian's apt to fetch QEMU and a kernel"
missing=()
for p in $PACKAGES; do
  [ "$(dpkg-query -W -f '${db:Status-Status}' "$p" 2>/dev/null)" = installed ] || missing+=("$p")
done
if [ ${#missing[@]} -gt 0 ]; then
  [ "$(id -u)" = 0 ] || cannot "install first, as root: apt-get install --no-install-recommends ${missing[*]}"
  say "installing ${missing[*]}"
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null 2>&1 ||
    { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null; } ||
    cannot "apt-get could not install ${missing[*]}"
fi

mkdir -p "$CACHE"
exec 9>"$CACHE/lock"
flock 9
[ -s "$CACHE/recipe" ] && [ "$(cat "$CACHE/recipe")" = "$RECIPE" ] && exit 0

newest_kernel() {
  apt-cache search --names-only '^linux-image-6\.1\.0-[0-9]+-amd64$' | awk '{print $1}' | sed 's/^linux-image-//' | sort -V | tail -1
}
KERNEL=$(newest_kernel)
[ -n "$KERNEL" ] || { apt-get update -qq || true; KERNEL=$(newest_kernel); }
[ -n "$KERNEL" ] || cannot "no linux-image-6.1 package in this machine's package sources"
VERSION=$(apt-cache policy "linux-image-$KERNEL" | awk '/Candidate:/{print $2}')

WORK=$(mktemp -d "$CACHE/work.XXXXXX")
trap 'rm -rf "$WORK"' EXIT
fetch() { # package -> path of its .deb, of exactly the kernel's version
  (cd "$WORK" && apt-get download -qq "$1=$VERSION" >/dev/null 2>&1) || cannot "cannot download $1=$VERSION"
  ls "$WORK/$1"_*.deb
}

say "kernel $KERNEL ($VERSION): downloading"
dpkg-deb -x "$(fetch "linux-image-$KERNEL")" "$WORK/image"
rm "$WORK"/linux-image-*.deb
HEADERS=$(fetch "linux-headers-$KERNEL")
dpkg-deb -x "$HEADERS" "$WORK/headers"
for p in $(dpkg-deb -f "$HEADERS" Depends | grep -oE 'linux-(headers|kbuild)-[^ ,]+' | sort -u); do
  dpkg-deb -x "$(fetch "$p")" "$WORK/headers"
done
BUILD=$WORK/headers/usr/src/linux-headers-$KERNEL
sed -i "s|include /usr/src/|include $WORK/headers/usr/src/|" "$BUILD/Makefile"

say "unpacking soft-iWARP's source"
dpkg-deb --fsys-tarfile "$(fetch linux-source-6.1)" | tar xO ./usr/src/linux-source-6.1.tar.xz > "$WORK/source.tar.xz"
rm "$WORK"/linux-source-*.deb
mkdir "$WORK/siw"
tar xf "$WORK/source.tar.xz" -C "$WORK/siw" --strip-components=5 linux-source-6.1/drivers/infiniband/sw/siw
tar xf "$WORK/source.tar.xz" -O linux-source-6.1/scripts/extract-vmlinux > "$WORK/extract-vmlinux"
rm "$WORK/source.tar.xz"
cp -r "$WORK/siw" "$WORK/siw-fixed"

# Four defects of siw that affect the tests: a first FPDU that arrives while the passive side still accepts is lost,
# the 145th object of a process gets the memory-map key that libsiw takes for "none", of a CRC that arrives
# in two pieces the second is written over the first, and two threads walk a send queue at once when its socket has
# room again early, so that a frame has a wrong CRC. The constants that select the MPA mode become parameters with the
# same defaults.
python3 "$HERE/fix_siw.py" "$WORK/siw-fixed"

for variant in siw siw-fixed; do
  say "building $variant"
  make -s -j2 -C "$BUILD" M="$WORK/$variant" CONFIG_RDMA_SIW=m CONFIG_DEBUG_INFO_BTF_MODULES= modules \
    >"$WORK/$variant.log" 2>&1 || { tail -20 "$WORK/$variant.log" >&2; cannot "$variant does not build"; }
  strip --strip-debug -o "$CACHE/$variant.ko" "$WORK/$variant/siw.ko"
done

gcc -O1 -o "$CACHE/tsc_khz" "$HERE/tsc_khz.c" || cannot "no C compiler"

say "packing the initrd"
find "$WORK/image/lib/modules/$KERNEL" -name '*.ko.xz' -exec xz -dq {} +
depmod -b "$WORK/image" "$KERNEL"
ROOT=$WORK/root
mkdir -p "$ROOT"/{bin,proc,sys,dev,lower,rw,new,modules}
cp "$(command -v busybox)" "$ROOT/bin/"
ln -s busybox "$ROOT/bin/sh"
i=100
for m in virtio_pci 9pnet_virtio 9p overlay virtio_console virtio_net crc32_generic crc32c_generic crc32c_intel \
         libcrc32c dummy veth rdma_rxe ib_uverbs rdma_ucm; do
  modprobe -d "$WORK/image" -S "$KERNEL" --show-depends "$m" 2>/dev/null | awk '/^insmod/{print $2}' ||
    say "the kernel has no module $m"
done | awk '!seen[$0]++' > "$WORK/modules"
while read -r file; do
  strip --strip-debug -o "$ROOT/modules/$i-$(basename "$file")" "$file"
  i=$((i + 1))
done < "$WORK/modules"
cp "$CACHE/siw.ko" "$CACHE/siw-fixed.ko" "$ROOT/"
install -m 755 "$HERE/guest/init.sh" "$ROOT/init"
(cd "$ROOT" && find . | cpio -o -H newc --quiet | gzip -1) > "$CACHE/initrd.gz"
bash "$WORK/extract-vmlinux" "$WORK/image/boot/vmlinuz-$KERNEL" > "$CACHE/vmlinux"
echo "$KERNEL" > "$CACHE/kernel"
echo "$RECIPE" > "$CACHE/recipe"
say "ready: kernel $KERNEL in $CACHE"
