// SPDX-License-Identifier: Apache-2.0
// Finds the network interfaces that carry an RDMA port and the addresses of those interfaces.
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "nd/types.h"

namespace nd::provider::verbs {

// The adapter name, as rdma(8) prints it: "rxe0" for the only port of a device, "mlx4_0/2" for one of
// several.
std::string AdapterName(std::string_view device, unsigned port, unsigned port_count);
struct DevicePort {
  std::string device;
  std::uint8_t port = 1;
};
// The inverse of AdapterName(); the port is 1 when the name has no port.
DevicePort ParseAdapterName(std::string_view name);

// The names of the RDMA devices that the kernel has now. Opens no device.
std::vector<std::string> KernelDeviceNames();

// Returns why this process cannot open the device node of `device`: ENOENT when there is no node, EACCES when
// permission is missing, else 0. libibverbs reports ENOENT in both cases.
int DeviceNodeError(const std::string& device);

// Interfaces of a port: those of its GID table (RoCE with its VLANs) and, on InfiniBand, the IPoIB
// interfaces with that port's GID.
std::set<std::string> NetdevsOfPort(ibv_context* context, unsigned port);

// The IPv4 and IPv6 addresses of the interfaces that are up. Link-local IPv6 addresses are left out because
// an Address has no scope.
std::vector<Address> AddressesOf(const std::set<std::string>& netdevs);

}  // namespace nd::provider::verbs
