# SPDX-License-Identifier: Apache-2.0
# cables.sh KIND: in the virtual machine, RDMA devices of KIND (rxe or siw) for two hosts in one, A and P: on both
# ends of a cable each has an adapter with two IPv4 addresses and an IPv6 one, and another adapter. Prints the
# variables that tell nd_conformance (tests/conformance/site.h).
KIND=$1 SIX=0
case $KIND in rxe) NET=70 ;; siw) NET=80 ;; *) echo "cables.sh: rxe or siw" >&2; exit 2 ;; esac
# No way to anywhere else, which some cases are about.
ip route del default 2>/dev/null
# Both ends are addresses of this one kernel, and must still be reached over the cable.
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
cable "${KIND}a0" "${KIND}p0"
cable "${KIND}a1" "${KIND}p1"
# IPv6 has no accept_local: what A and P say to each other is routed ahead of the table of local addresses.
six() { # interface, its address, the other end's
  ip -6 rule add pref 10 iif "$1" lookup local
  ip -6 rule add pref 20 from "$2" to "$3" lookup "$((NET + ++SIX))"
  ip -6 route add "$3" dev "$1" table "$((NET + SIX))"
}
end "${KIND}a0" "${KIND}_a" 10.$NET.0.2/24 10.$NET.0.12/24 fd00:$NET::2/64
end "${KIND}p0" "${KIND}_p" 10.$NET.0.3/24 10.$NET.0.13/24 fd00:$NET::3/64
if [ "$KIND" = rxe ]; then
  ip -6 rule add pref 30 lookup local
  six rxea0 fd00:70::2 fd00:70::3
  six rxep0 fd00:70::3 fd00:70::2
  ip -6 rule del pref 0
fi
end "${KIND}a1" "${KIND}_a2" 10.$NET.1.2/24
end "${KIND}p1" "${KIND}_p2" 10.$NET.1.3/24
A="${KIND}_a=10.$NET.0.2,10.$NET.0.12,fd00:$NET::2 ${KIND}_a2=10.$NET.1.2"
P="${KIND}_p=10.$NET.0.3,10.$NET.0.13,fd00:$NET::3 ${KIND}_p2=10.$NET.1.3"
WIRE=
if [ "$KIND" = rxe ]; then
  # The wired one: each end's cable leads to the test, which carries frames from one to the other, or not. Not for
  # siw: its TCP never leaves a kernel that has both addresses.
  cable rxeaw rxean
  cable rxepw rxepn
  sysctl -qw net.ipv6.conf.rxean.disable_ipv6=1 net.ipv6.conf.rxepn.disable_ipv6=1
  end rxeaw rxe_aw 10.77.0.2/24
  end rxepw rxe_pw 10.77.0.3/24
  A+=" rxe_aw=10.77.0.2" P+=" rxe_pw=10.77.0.3" WIRE="rxean=rxeaw rxepn=rxepw"
fi
echo "export NDBROKER_CONFORMANCE_A='$A' NDBROKER_CONFORMANCE_P='$P' NDBROKER_CONFORMANCE_WIRE='$WIRE'"
