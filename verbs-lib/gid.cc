// SPDX-License-Identifier: Apache-2.0
#include "verbs-lib/gid.h"

#include <array>
#include <cstring>

namespace nd::verbs_lib {

ibv_gid GidOf(const Address& address) {
  ibv_gid gid{};
  const std::string_view ip = address.ip();
  if (ip.size() == 16) std::memcpy(gid.raw, ip.data(), 16);
  if (ip.size() == 4) {
    gid.raw[10] = gid.raw[11] = 0xff;
    std::memcpy(gid.raw + 12, ip.data(), 4);
  }
  return gid;
}

Address AddressOf(const ibv_gid& gid) {
  static constexpr std::uint8_t kMapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
  if (std::memcmp(gid.raw, kMapped, sizeof kMapped) == 0) {
    return Address::V4({gid.raw[12], gid.raw[13], gid.raw[14], gid.raw[15]});
  }
  std::array<std::uint8_t, 16> ip{};
  std::memcpy(ip.data(), gid.raw, ip.size());
  return Address::V6(ip);
}

}  // namespace nd::verbs_lib
