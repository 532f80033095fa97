// SPDX-License-Identifier: Apache-2.0
// Makes the operations of a session idempotent by id: records running operations and the newest completions.
//
// Completions are counted and weighed; the oldest go first. An id that is no longer remembered names a new
// operation (proto/ndbroker/v1/session.proto).
#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/container/flat_hash_map.h"
#include "base/ring_queue.h"
#include "daemon/core/action.h"

namespace nd::core {

class OpLog {
 public:
  static constexpr std::size_t kRemembered = 1024;
  static constexpr std::size_t kBytes = 512 * 1024;
  // This much is remembered even when the user has used up the limit of all sessions.
  static constexpr std::size_t kLeastBytes = 8 * 1024;

  enum class Known : std::uint8_t { kNew, kRunning, kDone };
  Known Lookup(OpId id) const;
  // Only when kDone.
  const Complete& Done(OpId id) const;

  void Begin(OpId id, std::uint64_t sequence);
  // Records the completion of the running `complete.op_id` and forgets the oldest ones, so that all together
  // weigh at most kBytes and at most max(`allowed`, kLeastBytes).
  void End(const Complete& complete, std::size_t allowed);

  std::size_t running() const { return places_.size() - done_.size() + (latest_.id != 0 ? 1 : 0); }
  // The sequence number of the running operation `id`; 0 when it does not run.
  std::uint64_t SequenceOf(OpId id) const;

  // The weight of all completions.
  std::size_t bytes() const { return bytes_; }
  // The weight of one completion: its own size, its heap bytes and its table entries.
  static std::size_t Weight(const Complete& complete);

 private:
  void ForgetOldest();

  struct Place {
    bool done = false;
    std::uint64_t number = 0;  // Running: the sequence number. Done: the place in done_, plus forgotten_.
  };

  // Puts the latest operation into places_.
  void PlaceLatest();

  // The operation that began last, while it runs; id 0: none. Most operations end before another begins.
  struct Running {
    OpId id = 0;
    std::uint64_t sequence = 0;
  };
  Running latest_;
  OpId highest_ = 0;  // No higher id was ever begun.
  absl::flat_hash_map<OpId, Place> places_;
  RingQueue<Complete> done_;     // The oldest first.
  std::uint64_t forgotten_ = 0;  // The number of completions before the first of done_.
  std::size_t bytes_ = 0;
};

}  // namespace nd::core
