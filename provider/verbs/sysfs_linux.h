// SPDX-License-Identifier: Apache-2.0
// Which network interfaces carry an RDMA port, and which addresses those have.
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "nd/types.h"

namespace nd::provider::verbs {

// "rxe0" for the only port of a device, "mlx4_0/2" for one of several, as rdma(8) prints them.
std::string AdapterName(std::string_view device, unsigned port, unsigned port_count);
struct DevicePort {
  std::string device;
  std::uint8_t port = 1;
};
// The inverse; port 1 when there is none.
DevicePort ParseAdapterName(std::string_view name);

// Names of the RDMA devices that the kernel has right now, without opening any.
std::vector<std::string> KernelDeviceNames();

// Why the device node of `device` cannot be opened by this process, as an errno: ENOENT without a node, EACCES
// without the right, 0 otherwise. libibverbs says ENOENT for both.
int DeviceNodeError(const std::string& device);

// Interfaces of a port: those of its GID table (RoCE with its VLANs) and, on InfiniBand, the IPoIB
// interfaces with that port's GID.
std::set<std::string> NetdevsOfPort(ibv_context* context, unsigned port);

// IPv4 and IPv6 addresses of those interfaces that are up, without link-local IPv6 (an Address has no scope).
std::vector<Address> AddressesOf(const std::set<std::string>& netdevs);

}  // namespace nd::provider::verbs
