// SPDX-License-Identifier: Apache-2.0
// SipHash-2-4 with 128 bits of output (Aumasson and Bernstein): a short keyed hash. Who does not have the key
// can neither predict the hash of a text nor find it by trying. Pure.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace nd::state {

using HashKey = std::array<std::uint8_t, 16>;
std::array<std::uint8_t, 16> SipHash128(const HashKey& key, std::string_view text);

}  // namespace nd::state
