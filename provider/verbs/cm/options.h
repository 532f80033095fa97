// SPDX-License-Identifier: Apache-2.0
// What the daemon can say about RDMA devices; free of RDMA headers, so that a build without them has it too.
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
