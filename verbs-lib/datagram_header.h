// SPDX-License-Identifier: Apache-2.0
// What a UDP datagram between UD queue pairs carries in front of the message. Pure.
//
// The number of a UD queue pair is kDatagramNumbers plus its UDP port, so the port of the sender must agree
// with the number that the header names.
#pragma once

#include <infiniband/verbs.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "nd/types.h"

namespace nd::verbs_lib {

inline constexpr std::uint32_t kDatagramNumbers = 0x800000;
inline constexpr std::size_t kDatagramHeaderSize = 20;
inline constexpr std::size_t kMaxDatagramPayload = 4096;  // The MTU of the port.

struct DatagramHeader {
  std::uint32_t source_number = 0;
  std::uint32_t qkey = 0;
  std::optional<std::uint32_t> immediate;
  bool solicited = false;
};

std::array<std::byte, kDatagramHeaderSize> EncodeDatagramHeader(const DatagramHeader& header);

// Returns no value when the datagram is not of this protocol: too short or long, of another version, with
// unknown flags, or from a port that differs from the port of the number in it.
std::optional<DatagramHeader> ParseDatagramHeader(std::span<const std::byte> datagram,
                                                  std::uint16_t source_port);

// The Global Route Header that stands in front of received data: for IPv4 the IP header in its last 20 bytes,
// with a valid checksum, for IPv6 the IP header. `payload` is the length of the message.
ibv_grh RouteHeaderOf(const Address& source, const Address& destination, std::size_t payload);

}  // namespace nd::verbs_lib
