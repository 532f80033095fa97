// SPDX-License-Identifier: Apache-2.0
// The limits of the session protocol.
#pragma once

#include <cstddef>
#include <cstdint>

namespace nd::session {

inline constexpr std::uint32_t kProtocolVersion = 1;
// The token that the fd lane delivers and Hello returns.
inline constexpr std::size_t kTokenBytes = 16;
inline constexpr std::size_t kMaxApplicationName = 64;
// The sentence of a Status that a client sends.
inline constexpr std::size_t kMaxSentence = 1024;

}  // namespace nd::session
