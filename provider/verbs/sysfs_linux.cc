// SPDX-License-Identifier: Apache-2.0
// libibverbs knows devices and rdma_cm knows addresses; sysfs tells which device has which address.
#include "provider/verbs/sysfs_linux.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <memory>

namespace nd::provider::verbs {
namespace {

namespace fs = std::filesystem;

std::string ReadLine(const fs::path& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

std::vector<std::string> Entries(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    names.push_back(it->path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

// "fe80:0000:0000:0000:0002:c903:00ef:5ed1" and "80:00:02:08:fe:80:..." without their colons.
std::string HexDigits(std::string_view text) {
  std::string digits;
  for (const char c : text) {
    if (c != ':') digits += c;
  }
  return digits;
}

constexpr std::string_view kArphrdInfiniband = "32";
constexpr std::size_t kMostGids = 4096;  // Valid entries of all ports; real tables are far smaller.
// The last 16 of the 20 bytes of the interface's hardware address.
constexpr std::size_t kIpoibGidDigits = 32;

}  // namespace

std::string AdapterName(std::string_view device, unsigned port, unsigned port_count) {
  std::string name(device);
  if (port_count > 1) name += "/" + std::to_string(port);
  return name;
}

DevicePort ParseAdapterName(std::string_view name) {
  const std::size_t slash = name.rfind('/');
  if (slash == std::string_view::npos) return {std::string(name), 1};
  unsigned port = 0;
  const std::string_view digits = name.substr(slash + 1);
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), port);
  if (error != std::errc() || end != digits.data() + digits.size() || port == 0 || port > 255) {
    return {std::string(name), 1};
  }
  return {std::string(name.substr(0, slash)), static_cast<std::uint8_t>(port)};
}

std::vector<std::string> KernelDeviceNames() {
  return Entries("/sys/class/infiniband");
}

int DeviceNodeError(const std::string& device) {
  const fs::path classes = "/sys/class/infiniband_verbs";
  for (const std::string& node : Entries(classes)) {
    if (ReadLine(classes / node / "ibdev") != device) continue;
    const std::string path = "/dev/infiniband/" + node;
    if (::access(path.c_str(), F_OK) != 0) return ENOENT;
    return ::access(path.c_str(), R_OK | W_OK) == 0 ? 0 : EACCES;
  }
  return ENOENT;
}

std::set<std::string> NetdevsOfPort(ibv_context* context, unsigned port) {
  std::set<std::string> netdevs;
  const fs::path folder = fs::path("/sys/class/infiniband") / ibv_get_device_name(context->device) / "ports" /
                          std::to_string(port);
  // One call for the whole table: it may have a thousand entries, each a file in sysfs.
  std::vector<ibv_gid_entry> table(kMostGids);
  const ssize_t count = ibv_query_gid_table(context, table.data(), table.size(), 0);
  for (ssize_t i = 0; i < count; ++i) {
    const ibv_gid_entry& entry = table[static_cast<std::size_t>(i)];
    char name[IF_NAMESIZE];
    if (entry.port_num == port && entry.ndev_ifindex != 0 &&
        if_indextoname(entry.ndev_ifindex, name) != nullptr) {
      netdevs.insert(name);
    }
  }
  if (ReadLine(folder / "link_layer") != "InfiniBand") return netdevs;
  const std::string gid = HexDigits(ReadLine(folder / "gids/0"));
  if (gid.size() != kIpoibGidDigits) return netdevs;
  for (const std::string& name : Entries("/sys/class/net")) {
    const fs::path net = fs::path("/sys/class/net") / name;
    if (ReadLine(net / "type") != kArphrdInfiniband) continue;
    const std::string hardware = HexDigits(ReadLine(net / "address"));
    if (hardware.size() > kIpoibGidDigits && hardware.ends_with(gid)) netdevs.insert(name);
  }
  return netdevs;
}

std::vector<Address> AddressesOf(const std::set<std::string>& netdevs) {
  std::vector<Address> addresses;
  ifaddrs* list = nullptr;
  if (netdevs.empty() || getifaddrs(&list) != 0) return addresses;
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owner(list, freeifaddrs);
  for (const ifaddrs* it = list; it != nullptr; it = it->ifa_next) {
    if (it->ifa_addr == nullptr || (it->ifa_flags & IFF_UP) == 0 || !netdevs.contains(it->ifa_name)) continue;
    if (it->ifa_addr->sa_family == AF_INET) {
      addresses.push_back(Address::FromSockaddr(it->ifa_addr, sizeof(sockaddr_in)));
    } else if (it->ifa_addr->sa_family == AF_INET6) {
      const auto* v6 = reinterpret_cast<const sockaddr_in6*>(it->ifa_addr);
      if (IN6_IS_ADDR_LINKLOCAL(&v6->sin6_addr)) continue;
      addresses.push_back(Address::FromSockaddr(it->ifa_addr, sizeof(sockaddr_in6)));
    }
  }
  for (Address& address : addresses) address.set_port(0);
  std::sort(addresses.begin(), addresses.end());
  addresses.erase(std::unique(addresses.begin(), addresses.end()), addresses.end());
  return addresses;
}

}  // namespace nd::provider::verbs
