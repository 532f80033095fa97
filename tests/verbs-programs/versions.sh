#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Programs, librdmacm and libibverbs of other releases of Debian on the library of this build.
#
# usage: versions.sh BUILD_DIR [RELEASE...]      default: bullseye (rdma-core 33), trixie (56) and sid (65 in November 2026)
# Their packages come from the archive that apt uses, by its signed lists, into ${XDG_CACHE_HOME:-~/.cache}/ndbroker-rdma-core;
# nothing is installed. A release with a newer C library runs in a root of its own, and one with an older C library on that of
# the host, below its own librdmacm. Each function of that libibverbs must be on our lists (symbols_test.sh), and the programs
# must end with status 0. 77: no archive of Debian, or no namespaces.
set -u
build=$(cd "$1" && pwd)
here=$(cd "$(dirname "$0")" && pwd)
shift
releases=${*:-bullseye trixie sid}
cache=${XDG_CACHE_HOME:-$HOME/.cache}/ndbroker-rdma-core
libraries=usr/lib/$(gcc -print-multiarch)
skip() { echo "SKIP: $*"; exit 77; }

# fetch RELEASE: its packages, unpacked in $cache/RELEASE.
fetch() {
  local release=$1 package file
  local -a wanted=(libibverbs1 ibverbs-utils rdmacm-utils perftest libnl-3-200 libnl-route-3-200)
  case $release in
    bullseye) wanted+=(librdmacm1) ;;
    *) wanted+=(librdmacm1t64 ibverbs-providers libc6 libgcc-s1 libstdc++6 libpci3 zlib1g libudev1 libcap2 libibumad3) ;;
  esac
  [ -e "$cache/$release/complete" ] && return
  rm -rf "${cache:?}/$release"
  mkdir -p "$cache/$release/packages" "$cache/$release/root/usr/"{bin,lib,lib64,sbin}
  for file in bin lib lib64 sbin; do ln -s usr/$file "$cache/$release/root/$file"; done
  (cd "$cache/$release/packages" && apt-get "${options[@]}" download "${wanted[@]/%//$release}") > "$cache/$release/log" 2>&1 || return
  for package in "$cache/$release/packages"/*.deb; do dpkg-deb --fsys-tarfile "$package" | tar -x -C "$cache/$release/root" --keep-directory-symlink; done
  rm -r "$cache/$release/packages"
  touch "$cache/$release/complete"
}

if [ -z "${NDBROKER_VERBS_ISOLATED:-}" ]; then
  command -v apt-get > /dev/null || skip "other releases come from Debian's archive, by apt-get"
  lists=$cache/apt
  mkdir -p "$lists/lists/partial" "$lists/none"
  archive=$(apt-get indextargets --format '$(ORIGIN) $(RELEASE) $(COMPONENT) $(REPO_URI)' 'Created-By: Packages' |
    awk '$1 == "Debian" && $2 !~ /security|updates/ && $3 == "main" { print $4; exit }')
  [ -n "$archive" ] || skip "apt knows no archive of Debian"
  options=(-q -o Dir::Etc::sourcelist="$lists/sources.list" -o Dir::Etc::sourceparts="$lists/none" -o Dir::State::lists="$lists/lists"
    -o Dir::Cache::srcpkgcache= -o Dir::Cache::pkgcache= -o APT::Sandbox::User=root -o Dir::State::status=/dev/null)
  missing=()
  for release in $releases; do [ -e "$cache/$release/complete" ] || missing+=("$release"); done
  if [ ${#missing[@]} != 0 ]; then
    printf 'deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] %s %s main\n' $(printf "$archive %s " "${missing[@]}") \
      > "$lists/sources.list"
    apt-get "${options[@]}" update > "$lists/log" 2>&1
    for release in "${missing[@]}"; do
      fetch "$release" || skip "$release: the archive did not give its packages: $(grep -m 1 '^E:' "$cache/$release/log")"
    done
  fi
  for how in '--net --mount' '--user --map-root-user --net --mount'; do
    unshare $how true 2> /dev/null && NDBROKER_VERBS_ISOLATED=1 exec unshare $how "$(readlink -f "$0")" "$build" $releases
  done
  skip "no namespaces"
fi

work=$(mktemp -d) failed=0
trap 'kill "$broker" 2> /dev/null; wait; rm -rf "$work"' EXIT
address=10.91.0.1
ip link set lo up
ip addr add $address/32 dev lo
export NDBROKER_DIR=$work/broker
mkdir "$NDBROKER_DIR"
"$build/bin/ndbrokerd" --dir "$NDBROKER_DIR" --adapter-address $address > "$work/broker.log" 2>&1 & broker=$!
for _ in $(seq 100); do grep -qs ^READY "$work/broker.log" && break; sleep 0.1; done
grep -q ^READY "$work/broker.log" || { echo "FAIL: the broker did not start"; cat "$work/broker.log"; exit 1; }
mapfile -t variables < <("$build/bin/ndctl" env)

# in_release COMMAND: a command of the release $root.
in_release() {
  local word=$1
  [ "${word#/}" != "$word" ] || word=/usr/bin/$word
  if [ "$release" = bullseye ]; then
    env "${variables[@]}" LD_LIBRARY_PATH="$build/lib/ndbroker/verbs:$root/$libraries" timeout 60 "$root$word" "${@:2}"
  else
    env "${variables[@]}" timeout 60 chroot "$root" "$word" "${@:2}"
  fi
}
check() { # NAME STATUS...
  local name="$release: $1"; shift
  if [ "$(printf %s "$@" | tr -d 0)" = "" ]; then echo "ok    $name"; return; fi
  failed=1
  echo "FAIL  $name: client, server: $*"
  tail -n 4 "$work/client" "$work/server" | sed 's/^/      /'
}
pair() { # NAME SERVER CLIENT
  local status pid
  in_release $2 < /dev/null > "$work/server" 2>&1 & pid=$!
  sleep 1.5
  in_release $3 < /dev/null > "$work/client" 2>&1
  status=$?
  wait $pid
  check "$1" $status $?
}
for release in $releases; do
  root=$cache/$release/root
  : > "$work/server"
  "$here/symbols_test.sh" "$build/lib/ndbroker/verbs/libibverbs.so.1" "$root/$libraries/libibverbs.so.1" > "$work/client" 2>&1
  check "all functions of libibverbs are on our lists" $?
  if [ "$release" != bullseye ]; then
    mkdir -p "$root/"{proc,sys,dev,tmp,run} "$root$build"
    for folder in proc sys dev tmp; do mount --rbind /$folder "$root/$folder"; done
    mount --rbind "$build" "$root$build"
    case $work in /tmp/*) ;; *) mkdir -p "$root$work"; mount --rbind "$work" "$root$work" ;; esac
  fi
  in_release ibv_devinfo -v > "$work/client" 2>&1
  status=$?
  grep -q 'hca_id:.*soft0' "$work/client" && ! grep -q ':.*not found' "$work/client"
  check ibv_devinfo $status $?
  pair rping "rping -s -a $address -C 20 -V" "rping -c -a $address -C 20 -V"
  pair ucmatose "ucmatose -c 5 -C 10 -b $address" "ucmatose -c 5 -C 10 -s $address"
  pair rdma_server rdma_server "rdma_client -s $address"
  pair rstream "rstream -b $address -S all -C 5" "rstream -s $address -S all -C 5"
  pair udaddy "udaddy -C 5 -b $address" "udaddy -C 5 -s $address"
  pair rc_pingpong "ibv_rc_pingpong -g 0 -n 100" "ibv_rc_pingpong -g 0 -n 100 $address"
  pair srq_pingpong "ibv_srq_pingpong -g 0 -n 100" "ibv_srq_pingpong -g 0 -n 100 $address"
  for test in ib_send_lat ib_write_bw ib_read_lat ib_atomic_bw; do
    pair "$test -R" "$test -R -n 100" "$test -R -n 100 $address"
    pair "$test" "$test -n 100" "$test -n 100 $address"
  done
  [ "$release" = bullseye ] && continue
  in_release "$build/bin/verbs_by_number_test" --gtest_brief=1 > "$work/client" 2>&1
  check by_number $?
done
exit $failed
