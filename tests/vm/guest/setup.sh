# SPDX-License-Identifier: Apache-2.0
# In the virtual machine, on the overlay of the host's root: network, RDMA devices, shared folder, then the
# jobs. rxe0 lives on d0 (10.9.0.1), siw0 on d1 (10.9.1.1), siwx on eth0, towards the host.
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root TERM=dumb LANG=C.UTF-8
hostname ndvm
ulimit -l unlimited
ulimit -n 65536
# Without this every program would load the drivers of all kinds of devices to find these two.
mount -t tmpfs drivers /etc/libibverbs.d
for driver in rxe siw; do echo "driver $driver" > /etc/libibverbs.d/$driver.driver; done
ip link set lo up
ip addr add "$VM_address" dev eth0
ip link set eth0 up
ip route add default via "$VM_gateway" 2>/dev/null
ip link add d0 type dummy
ip addr add 10.9.0.1/24 dev d0
ip link set d0 mtu 4200 up
ip link add d1 type dummy
ip addr add 10.9.1.1/24 dev d1
ip link set d1 up
rdma link add rxe0 type rxe netdev d0 || echo "setup: rxe0 failed"
rdma link add siw0 type siw netdev d1 || echo "setup: siw0 failed"
rdma link add siwx type siw netdev eth0 || echo "setup: siwx failed"
# Ordinary TCP connections in TIME_WAIT would take ports that siw binds as TCP ports.
sysctl -qw net.ipv4.tcp_max_tw_buckets=0
mkdir -p "$VM_share"
mount -t 9p -o trans=virtio,version=9p2000.L,msize=524288,cache=none,access=any share "$VM_share" || exit 1
chmod 666 /dev/infiniband/* 2>/dev/null
echo "setup: up after $(cut -d' ' -f1 /proc/uptime) s"
exec bash "$VM_here/guest/agent.sh" "$VM_share" </dev/null >/dev/null 2>&1
