// SPDX-License-Identifier: Apache-2.0
// Connects that wait for the wire, and connects in flight on it ("flights").
//
// The number of flights is limited. A user (uid) may have at most kShare times as many of them as
// there are free places, and so may a destination, be it a listener of this host or of another one. A user
// alone therefore leaves an eighth of the places free for the next user, two users get equal parts, and a
// listener that never answers cannot keep all places busy.
//
// The free places go to the users in turn; those of one user to its destinations in turn; those of one
// destination to its connects in order of arrival.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "absl/container/btree_map.h"
#include "absl/container/flat_hash_map.h"
#include "daemon/core/ids.h"
#include "nd/types.h"

namespace nd::core {

class Attempts {
 public:
  static constexpr std::uint32_t kShare = 7;

  // True when the owner of `flights` flights may have another one, with `all` of the `limit` places in use.
  static bool MayFly(std::uint32_t flights, std::uint32_t all, std::uint32_t limit) {
    return all < limit && flights < std::uint64_t{kShare} * (limit - all);
  }

  explicit Attempts(std::uint32_t limit) : limit_(limit) {}

  // A lower limit does not end handshakes in flight.
  void set_limit(std::uint32_t limit) { limit_ = limit; }
  // Adds a waiting connector, which must neither wait nor be in flight.
  void Add(Handle connector, std::uint32_t uid, const Address& destination);
  // Returns the connector whose turn it is and puts it in flight; no value when no waiting connector may fly.
  std::optional<Handle> Next();
  enum class Place : std::uint8_t { kNone, kWaits, kFlies };
  Place PlaceOf(Handle connector) const;
  // Removes the connector and returns the place that it had.
  Place Remove(Handle connector);

  std::size_t waiting() const { return entries_.size() - flying_; }
  std::uint32_t flying() const { return flying_; }
  std::size_t users() const { return users_.size(); }  // With an attempt that waits or is in flight.

 private:
  struct Entry {
    std::uint32_t uid = 0;
    std::uint64_t order = 0;  // The position among waiting connectors; 0: in flight.
    Address destination;
  };
  using Line = absl::btree_map<std::uint64_t, Handle>;  // By order.
  struct User {
    std::uint32_t flights = 0;
    Address served;  // The destination that had the last turn.
    absl::btree_map<Address, Line> lines;
  };
  absl::btree_map<Address, Line>::iterator LineInTurn(User& user);
  void ForgetUserIfIdle(std::uint32_t uid);

  std::uint32_t limit_;
  std::uint32_t flying_ = 0;
  std::uint32_t served_ = 0;  // The user that had the last turn.
  std::uint64_t next_order_ = 1;
  absl::flat_hash_map<std::uint64_t, Entry> entries_;  // By handle; never iterated.
  absl::btree_map<std::uint32_t, User> users_;
  absl::btree_map<Address, std::uint32_t> flights_to_;
};

}  // namespace nd::core
