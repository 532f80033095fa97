// SPDX-License-Identifier: Apache-2.0
// The readiness of a descriptor, as EventLoop takes and reports it. The values are those of epoll.
#pragma once

#include <cstdint>

namespace nd::os {

inline constexpr std::uint32_t kReadable = 0x1;
inline constexpr std::uint32_t kWritable = 0x4;
inline constexpr std::uint32_t kFailed = 0x8;           // Reported unasked.
inline constexpr std::uint32_t kHungUp = 0x10;          // Both directions are closed. Reported unasked.
inline constexpr std::uint32_t kPeerFinished = 0x2000;  // The peer sends nothing more.

}  // namespace nd::os
