// SPDX-License-Identifier: Apache-2.0
// The RDMA ends of `ndctl ping`: one connects, the other answers.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cli/context.h"

namespace nd::cli {

// In the private data of both sides it announces an end that echoes messages. A peer that does not answer
// with it gets a connection and no messages.
inline constexpr char kPingMagic[] = "ndctl-ping/1";
inline constexpr std::uint32_t kMaxPingSize = 65536;
inline constexpr std::uint32_t kPingDepth = 4;

struct PingOptions {
  std::string address;  // "10.0.0.1:7000"
  std::string adapter;
  std::uint32_t count = 5;
  std::uint32_t size = 64;
};

// Connects to `address` and reports how long each phase took, or the reason of a failure.
Failure PingPeer(Context& context, const PingOptions& options);
// Listens on `address` and echoes; ends after `count` connections (0: never).
Failure ServePings(Context& context, const PingOptions& options);

Value Statistics(const std::vector<double>& microseconds);

}  // namespace nd::cli
