// SPDX-License-Identifier: Apache-2.0
// Uniqueness of (adapter, local ip:port, remote ip:port) among live connections.
//
// Each tuple has room for one active and one passive holder, because two hosts that connect to each other
// from their listeners' ports (switch allow-same-owner-bind-sharing) make both at once; without the switch
// any holder excludes every other.
#pragma once

#include <cstdint>

#include "absl/container/flat_hash_map.h"
#include "daemon/core/ids.h"
#include "nd/types.h"
#include "provider/cm.h"

namespace nd::core {

struct TupleKey {
  std::uint32_t adapter = 0;
  Address local, remote;
  friend bool operator==(const TupleKey&, const TupleKey&) = default;
  template <typename H>
  friend H AbslHashValue(H h, const TupleKey& key) {
    return H::combine(std::move(h), key.adapter, key.local.ip(), key.local.port(), key.remote.ip(),
                      key.remote.port());
  }
};

struct TupleHolder {
  std::uint64_t attempt = 0;  // Unique per attempt; 0: no holder.
  Handle connector;           // Null while the request waits in a listener's queue.
  friend bool operator==(const TupleHolder&, const TupleHolder&) = default;
};

enum class Role : std::uint8_t { kActive, kPassive };

class TupleTable {
 public:
  // The holder that excludes a newcomer of this role: one of the same role, or of any role unless
  // `head_to_head`.
  TupleHolder Conflict(const TupleKey& key, Role role, bool head_to_head) const;
  // The holder of the other role, if any.
  TupleHolder Sibling(const TupleKey& key, Role role) const;
  // Sets the holder; replaces a stale one.
  void Put(const TupleKey& key, Role role, const TupleHolder& holder);
  // Removes the holder if it is still `attempt`.
  void Erase(const TupleKey& key, Role role, std::uint64_t attempt);
  // The holder, for the recount.
  TupleHolder Find(const TupleKey& key, Role role) const;
  std::size_t size() const { return size_; }

 private:
  struct Entry {
    TupleHolder holders[2];
  };
  absl::flat_hash_map<TupleKey, Entry> entries_;
  std::size_t size_ = 0;
};

}  // namespace nd::core
