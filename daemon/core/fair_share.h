// SPDX-License-Identifier: Apache-2.0
// How the users of a host share things of which there are few: the ephemeral ports of an address, the served
// network namespaces. Pure.
#pragma once

#include <cstdint>

namespace nd::core {

// Whether a user that holds `held` of `all` may take one more while `free` of them are free.
//
// Three quarters go to whoever comes first. After that a user may hold no more than a quarter of
// what is still free: a bound that shrinks with each one that is taken, so that a user with none gets one
// for as long as any is free.
constexpr bool WithinFairShare(std::uint32_t all, std::uint32_t free, std::uint32_t held) {
  if (free == 0) return false;
  return std::uint64_t{free} * 4 > all || std::uint64_t{held} * 4 < free;
}

}  // namespace nd::core
