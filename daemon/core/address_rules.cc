// SPDX-License-Identifier: Apache-2.0
// Rules that several operations share.
#include "daemon/core/address_rules.h"

#include <string>

namespace nd::core {

Status CheckDestinationShape(const Address& remote, const Address& local) {
  if (!remote.well_formed()) {
    return {StatusCode::kInvalidAddress, "The destination is not a complete IPv4 or IPv6 address."};
  }
  if (local.family() != Address::Family::kUnspecified && remote.family() != local.family()) {
    return {StatusCode::kInvalidAddress, "The destination " + remote.ToString() +
                                             " is of another family than the local address " +
                                             local.ToString() + "."};
  }
  return {};
}

Status CheckDestinationUsable(const Address& remote, bool bad_network_name) {
  if (remote.unspecified() || remote.multicast()) {
    return {bad_network_name ? StatusCode::kBadNetworkName : StatusCode::kNetworkUnreachable,
            "No host has the address " + remote.IpToString() + "."};
  }
  if (remote.port() == 0) {
    return {StatusCode::kConnectionRefused, "No listener can have port 0.", Detail::kNoListener};
  }
  return {};
}

Status CheckLocalAddress(const AdapterInfo& adapter, const Address& local, bool allow_unspecified) {
  if (!local.well_formed()) {
    return {StatusCode::kInvalidAddress, "The local address is not a complete IPv4 or IPv6 address."};
  }
  for (const Address& own : adapter.addresses) {
    if (own.same_ip(local)) return {};
    if (allow_unspecified && local.unspecified() && own.family() == local.family()) return {};
  }
  return {StatusCode::kInvalidAddress,
          "Adapter " + adapter.name + " does not have the address " + local.IpToString() + "."};
}

Status CheckPrivateData(std::size_t carried, std::uint32_t declared, std::uint32_t max) {
  if (carried != declared) {
    return {StatusCode::kAccessViolation, "Private data of " + std::to_string(declared) +
                                              " bytes was declared and " + std::to_string(carried) +
                                              " bytes could be read."};
  }
  if (declared > max) {
    return {StatusCode::kInvalidBufferSize, "Private data of " + std::to_string(declared) +
                                                " bytes is more than the adapter's " + std::to_string(max) +
                                                "."};
  }
  return {};
}

bool IsRetryableConnectFailure(StatusCode code) {
  switch (code) {
    case StatusCode::kNetworkUnreachable:
    case StatusCode::kBadNetworkName:
    case StatusCode::kHostUnreachable:
    case StatusCode::kConnectionRefused:
    case StatusCode::kIoTimeout:
    case StatusCode::kAddressAlreadyExists:
    case StatusCode::kInsufficientResources:
      return true;
    default:
      return false;
  }
}

}  // namespace nd::core
