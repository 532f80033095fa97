#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Makes the container image of ndbroker without a registry: build.sh --bin DIRECTORY --out DIRECTORY [--mirror URL]
#
# DIRECTORY of --bin has the programs of a build, and ../lib its library. Needs root and debootstrap. Writes OUT/rootfs, a
# bare Debian 12 with the shared libraries that the programs need, and OUT/ndbroker.tar, the same as an OCI image for
# `podman load`, `ctr images import` or `skopeo copy oci-archive:...`. debootstrap makes a /dev of its own in the root;
# nothing of the host is mounted there.
set -euo pipefail

here=$(dirname "$(readlink -f "$0")")
system_programs=(ndbrokerd ndbroker-csi ndbroker-gateway)
user_programs=(ndctl ndperf example_ping_pong)
bin='' out='' mirror=''
while [ $# -gt 0 ]; do
  case $1 in
    --bin | --out | --mirror)
      [ $# -gt 1 ] || { echo "build.sh: $1 needs a value" >&2; exit 2; }
      printf -v "${1#--}" %s "$2"
      shift 2
      ;;
    *)
      echo "usage: build.sh --bin DIRECTORY --out DIRECTORY [--mirror URL]" >&2
      exit 2
      ;;
  esac
done
[ -n "$bin" ] && [ -n "$out" ] || { echo "build.sh: --bin and --out are needed" >&2; exit 2; }
[ "$(id -u)" -eq 0 ] || { echo "build.sh: debootstrap needs root" >&2; exit 2; }
command -v debootstrap > /dev/null || { echo "build.sh: install debootstrap" >&2; exit 2; }
for program in "${system_programs[@]}" "${user_programs[@]}"; do
  [ -x "$bin/$program" ] || { echo "build.sh: $bin has no $program; build it first" >&2; exit 2; }
done
mkdir -p "$out"
out=$(readlink -f "$out")
lib=$(readlink -f "$bin/../lib")
root=$out/rootfs
# What ndbrokerd loads by itself.
services=$lib/ndbroker/ndbrokerd-services.so
[ -e "$services" ] || { echo "build.sh: $services is missing; build ndbrokerd-services first" >&2; exit 2; }

# The packages of the libraries, according to the linker of this host, which must be Debian 12 too.
mapfile -t packages < <(ldd "${system_programs[@]/#/$bin/}" "${user_programs[@]/#/$bin/}" "$services" |
  awk '/=> \// { print $3 }' | grep -v "^$lib/" | sort -u | xargs -n1 readlink -f |
  sed 'p; s,^/usr,,' | xargs dpkg-query -S 2> /dev/null | cut -d: -f1 | sort -u) # Some are registered without /usr.
include=$(IFS=,; echo "${packages[*]}")
# The first archive that apt of this host uses.
mirror=${mirror:-$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' | grep '/debian/$' | head -1)}

if [ ! -e "$out/packages" ] || [ "$(cat "$out/packages")" != "$include" ]; then
  rm -rf --one-file-system "$root"
  debootstrap --variant=minbase --include="$include" bookworm "$root" ${mirror:+"$mirror"} > "$out/debootstrap.log" 2>&1 ||
    { tail -5 "$out/debootstrap.log" >&2; exit 1; }
  rm -rf "$root"/var/lib/apt/lists/* "$root"/var/cache/apt/*.bin "$root"/var/cache/apt/archives/*.deb "$root"/var/log/* \
    "$root"/usr/share/{doc,man,locale,info}/* "$root"/etc/apt/sources.list
  rm -rf --one-file-system "$root/dev" && mkdir "$root/dev"
  echo "$include" > "$out/packages"
fi
install -s -t "$root/usr/sbin" "${system_programs[@]/#/$bin/}"
install -s -t "$root/usr/bin" "${user_programs[@]/#/$bin/}"
for library in "$lib"/libndbroker.so.?; do install -s -m 644 "$library" "$root/usr/lib/x86_64-linux-gnu/$(basename "$library")"; done
install -s -m 644 -D -t "$root/usr/lib/ndbroker" "$services"
mkdir -p "$root"/{run/ndbroker,etc/ndbroker,var/lib/ndbroker,var/lib/kubelet}
for program in "${system_programs[@]}" "${user_programs[@]}" /usr/lib/ndbroker/ndbrokerd-services.so; do
  chroot "$root" ldd "$(chroot "$root" sh -c "command -v $program || echo $program")" > "$out/ldd"
  ! grep 'not found' "$out/ldd" || { echo "build.sh: the image lacks libraries of $program" >&2; exit 1; }
done
rm "$out/ldd"
python3 "$here/image.py" "$root" "$out/ndbroker.tar" "$("$bin/ndbrokerd" --version | awk '{ print $NF }')"
echo "$out/ndbroker.tar: $(du -h "$out/ndbroker.tar" | cut -f1), ${#packages[@]} library packages, $(du -sh "$root" | cut -f1) unpacked"
