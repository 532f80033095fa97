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
  // The name of an object that was made ahead (session.proto, CreateConnector), until the client knows its
  // handle. No object has generation 0. Null: the id is too large for a name.
  static constexpr Handle NameOf(OpId made_by) {
    return made_by >> 40 == 0 ? Handle{made_by << 24} : Handle{};
  }
  // The operation of NameOf(); 0 for a handle.
  constexpr OpId made_by() const { return generation() == 0 ? value >> 24 : 0; }
  constexpr std::uint32_t epoch() const { return static_cast<std::uint32_t>(value >> 48); }
  constexpr std::uint32_t slot() const { return static_cast<std::uint32_t>(value >> 24) & 0xFFFFFFu; }
  constexpr std::uint32_t generation() const { return static_cast<std::uint32_t>(value) & 0xFFFFFFu; }
  explicit operator bool() const { return value != 0; }
  friend constexpr auto operator<=>(const Handle&, const Handle&) = default;
};

}  // namespace nd::session
