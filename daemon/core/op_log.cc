// SPDX-License-Identifier: Apache-2.0
// After a broken stream a client repeats operations without a known result; this makes repeats harmless.
#include "daemon/core/op_log.h"

#include <algorithm>

#include "daemon/core/check.h"
#include "session/weight.h"

namespace nd::core {

OpLog::Known OpLog::Lookup(OpId id) const {
  if (running_.contains(id)) return Known::kRunning;
  return done_index_.contains(id) ? Known::kDone : Known::kNew;
}

const Complete& OpLog::Done(OpId id) const {
  const auto found = done_index_.find(id);
  ND_CORE_CHECK(found != done_index_.end());
  return done_[static_cast<std::size_t>(found->second - forgotten_)];
}

void OpLog::Begin(OpId id, std::uint64_t sequence) {
  const bool added = running_.try_emplace(id, sequence).second;
  ND_CORE_CHECK(added);
}

std::size_t OpLog::Weight(const Complete& complete) {
  // Twice the entry, because a hash table is half empty.
  constexpr std::size_t kIndex = 2 * (sizeof(OpId) + sizeof(std::uint64_t) + 1);
  return sizeof(Complete) + kIndex + session::HeapBytes(complete);
}

void OpLog::ForgetOldest() {
  bytes_ -= Weight(done_.front());
  done_index_.erase(done_.front().op_id);
  done_.pop_front();
  ++forgotten_;
}

void OpLog::End(const Complete& complete, std::size_t allowed) {
  const std::size_t erased = running_.erase(complete.op_id);
  ND_CORE_CHECK(erased == 1);
  done_.push_back(complete);
  done_index_[complete.op_id] = forgotten_ + done_.size() - 1;
  bytes_ += Weight(done_.back());
  const std::size_t bound = std::min(kBytes, std::max(kLeastBytes, allowed));
  while (done_.size() > kRemembered || bytes_ > bound) ForgetOldest();
}

std::uint64_t OpLog::SequenceOf(OpId id) const {
  const auto found = running_.find(id);
  return found == running_.end() ? 0 : found->second;
}

}  // namespace nd::core
