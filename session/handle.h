// SPDX-License-Identifier: Apache-2.0
// The identifiers of a session.
#pragma once

#include <compare>
#include <cstdint>

namespace nd::session {

// Chosen by the client, unique in its session.
using OpId = std::uint64_t;

// Names one object of one session: {boot epoch, slot, generation}, so that a handle of a closed object,
// of another session or of an earlier broker never matches a live object. 0 means no object.
struct Handle {
  std::uint64_t value = 0;

  static constexpr Handle Make(std::uint32_t epoch, std::uint32_t slot, std::uint32_t generation) {
    return {std::uint64_t{epoch & 0xFFFFu} << 48 | std::uint64_t{slot & 0xFFFFFFu} << 24 |
            (generation & 0xFFFFFFu)};
  }
  constexpr std::uint32_t epoch() const { return static_cast<std::uint32_t>(value >> 48); }
  constexpr std::uint32_t slot() const { return static_cast<std::uint32_t>(value >> 24) & 0xFFFFFFu; }
  constexpr std::uint32_t generation() const { return static_cast<std::uint32_t>(value) & 0xFFFFFFu; }
  explicit operator bool() const { return value != 0; }
  friend constexpr auto operator<=>(const Handle&, const Handle&) = default;
};

}  // namespace nd::session
