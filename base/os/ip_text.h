// SPDX-License-Identifier: Apache-2.0
// IP addresses as text, without ports and without names. Any thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace nd::os {

// Returns the length of the address: 4, 16, or 0 when the text is no address. The bytes are in network order.
std::size_t ParseIp(const std::string& text, std::array<std::uint8_t, 16>* ip);

// `ip` has 4 or 16 bytes. The short form of RFC 5952 for IPv6.
std::string FormatIp(std::span<const std::uint8_t> ip);

}  // namespace nd::os
