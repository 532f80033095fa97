// SPDX-License-Identifier: Apache-2.0
// What the daemon can say about RDMA devices; free of RDMA headers, so that a build without them has it too.
#pragma once

#include <string>
#include <vector>

namespace nd::provider::verbs {

struct Options {
  bool enabled = true;
  std::vector<std::string> devices;  // Names of the devices to offer; empty: all.
};

}  // namespace nd::provider::verbs
