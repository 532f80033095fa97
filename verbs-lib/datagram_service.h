// SPDX-License-Identifier: Apache-2.0
// What rdma_cm tells about UD queue pairs (RDMA_PS_UDP), in front of the private data of a request and of its
// answer: the number of the queue pair and its Q_Key. A request has neither. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace nd::verbs_lib {

inline constexpr std::size_t kDatagramServiceSize = 12;

// The Q_Key of the queue pairs of RDMA_PS_UDP, RDMA_UDP_QKEY of the kernel.
inline constexpr std::uint32_t kDatagramServiceQkey = 0x01234567;

struct DatagramService {
  std::uint32_t number = 0;
  std::uint32_t qkey = 0;

  friend bool operator==(const DatagramService&, const DatagramService&) = default;
};

// Returns the private data of the broker's connection: the service, and that of the program behind it.
std::vector<std::byte> EncodeDatagramService(const DatagramService& service, std::span<const std::byte> data);

// Returns no value for the private data of other connections, which do not begin so.
std::optional<DatagramService> ParseDatagramService(std::span<const std::byte> data);

}  // namespace nd::verbs_lib
