// SPDX-License-Identifier: Apache-2.0
// Idempotence of a session's operations by their id: what runs, and the newest completions for a repeat.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "daemon/core/action.h"

namespace nd::core {

class OpLog {
 public:
  static constexpr std::size_t kRemembered = 1024;

  enum class Known : std::uint8_t { kNew, kRunning, kDone };
  Known Lookup(OpId id) const;
  // Only when kDone.
  const Complete& Done(OpId id) const;

  void Begin(OpId id, std::uint64_t sequence);
  // `complete.op_id` runs.
  void End(const Complete& complete);

  std::size_t running() const { return running_.size(); }
  // The sequence number under which `id` began; 0 when it does not run.
  std::uint64_t SequenceOf(OpId id) const;

 private:
  absl::flat_hash_map<OpId, std::uint64_t> running_;
  std::vector<Complete> done_;  // A ring once it is full.
  std::size_t oldest_ = 0;
  absl::flat_hash_map<OpId, std::size_t> done_index_;
};

}  // namespace nd::core
