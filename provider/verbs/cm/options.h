// SPDX-License-Identifier: Apache-2.0
// The options of the verbs provider. This file includes no RDMA header, so that a build without rdma-core has
// it too.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace nd::provider::verbs {

struct Options {
  bool enabled = true;
  std::vector<std::string> devices;  // Names of the devices to offer; empty: all.
  // RDMA Reads in flight that a connection may negotiate; a device may allow less.
  std::uint32_t max_inbound_read_limit = 255, max_outbound_read_limit = 255;
};

}  // namespace nd::provider::verbs
