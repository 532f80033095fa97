# SPDX-License-Identifier: Apache-2.0
# cables.sh KIND [N]: in the virtual machine, makes RDMA devices of KIND (rxe or siw) for two hosts, A and P, in one
# kernel. Each has an adapter at its end of a cable, with two IPv4 addresses and an IPv6 one, and a second adapter. N
# (0..6) distinguishes several such pairs. Prints variables for nd_conformance (tests/conformance/site.h).
KIND=$1 N=${2:-0} SIX=0
case $KIND in rxe) NET=$((70 + N)) ;; siw) NET=$((80 + N)) ;; *) echo "cables.sh: rxe or siw" >&2; exit 2 ;; esac
NAME=$KIND$N
# Both ends are addresses of one kernel but must be reached over the cable.
sysctl -qw net.ipv4.conf.all.accept_local=1 net.ipv4.conf.all.rp_filter=0 net.ipv4.conf.default.rp_filter=0
sysctl -qw net.ipv4.conf.all.arp_ignore=1 net.ipv4.conf.all.arp_announce=2
end() { # interface device addresses...
  local interface=$1 device=$2 address
  shift 2
  sysctl -qw "net.ipv4.conf.$interface.rp_filter=0"
  for address in "$@"; do
    ip addr add "$address" dev "$interface" $(case $address in *:*) echo nodad ;; esac)
  done
  rdma link add "$device" type "$KIND" netdev "$interface" || echo "cables.sh: no $device" >&2
}
cable() { # one end, the other
  ip link add "$1" type veth peer name "$2" && ip link set "$1" mtu 4200 up && ip link set "$2" mtu 4200 up || exit 1
}
# IPv6 has no accept_local, so traffic between A and P is routed ahead of the table of local addresses.
six() { # interface, its address, the other end's
  local table=$((NET * 10 + ++SIX))
  ip -6 rule add pref 10 iif "$1" lookup local
  ip -6 rule add pref 20 from "$2" to "$3" lookup $table
  ip -6 route add "$3" dev "$1" table $table
}
cable "${NAME}a0" "${NAME}p0"
cable "${NAME}a1" "${NAME}p1"
end "${NAME}a0" "${NAME}_a" 10.$NET.0.2/24 10.$NET.0.12/24 fd00:$NET::2/64
end "${NAME}p0" "${NAME}_p" 10.$NET.0.3/24 10.$NET.0.13/24 fd00:$NET::3/64
end "${NAME}a1" "${NAME}_a2" 10.$NET.1.2/24
end "${NAME}p1" "${NAME}_p2" 10.$NET.1.3/24
if [ "$KIND" = rxe ]; then
  six "${NAME}a0" fd00:$NET::2 fd00:$NET::3
  six "${NAME}p0" fd00:$NET::3 fd00:$NET::2
  ip -6 rule show | grep -q '^30:' || ip -6 rule add pref 30 lookup local
  ip -6 rule del pref 0 2>/dev/null
fi
A="${NAME}_a=10.$NET.0.2,10.$NET.0.12,fd00:$NET::2 ${NAME}_a2=10.$NET.1.2"
P="${NAME}_p=10.$NET.0.3,10.$NET.0.13,fd00:$NET::3 ${NAME}_p2=10.$NET.1.3"
WIRE=
if [ "$NAME" = rxe0 ]; then
  # The wired pair: the cable of each end leads to the test, which forwards or drops frames. Not for siw, because its
  # TCP does not leave a kernel that has both addresses.
  cable rxeaw rxean
  cable rxepw rxepn
  sysctl -qw net.ipv6.conf.rxean.disable_ipv6=1 net.ipv6.conf.rxepn.disable_ipv6=1
  end rxeaw rxe_aw 10.77.0.2/24
  end rxepw rxe_pw 10.77.0.3/24
  A+=" rxe_aw=10.77.0.2" P+=" rxe_pw=10.77.0.3" WIRE="rxean=rxeaw rxepn=rxepw"
fi
echo "export NDBROKER_CONFORMANCE_A='$A' NDBROKER_CONFORMANCE_P='$P' NDBROKER_CONFORMANCE_WIRE='$WIRE'"
