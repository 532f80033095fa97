// SPDX-License-Identifier: Apache-2.0
// After a broken stream a client repeats operations without a known result; this makes repeats harmless.
#include "daemon/core/op_log.h"

#include <algorithm>

#include "daemon/core/check.h"
#include "session/weight.h"

namespace nd::core {

OpLog::Known OpLog::Lookup(OpId id) const {
  const auto found = places_.find(id);
  if (found == places_.end()) return Known::kNew;
  return found->second.done ? Known::kDone : Known::kRunning;
}

const Complete& OpLog::Done(OpId id) const {
  const auto found = places_.find(id);
  ND_CORE_CHECK(found != places_.end() && found->second.done);
  return done_[static_cast<std::size_t>(found->second.number - forgotten_)];
}

void OpLog::Begin(OpId id, std::uint64_t sequence) {
  const bool added = places_.try_emplace(id, Place{false, sequence}).second;
  ND_CORE_CHECK(added);
}

std::size_t OpLog::Weight(const Complete& complete) {
  // Twice the entry, because a hash table is half empty.
  constexpr std::size_t kIndex = 2 * (sizeof(OpId) + sizeof(Place) + 1);
  return sizeof(Complete) + kIndex + session::HeapBytes(complete);
}

void OpLog::ForgetOldest() {
  const Complete oldest = done_.Take();
  bytes_ -= Weight(oldest);
  places_.erase(oldest.op_id);
  ++forgotten_;
}

void OpLog::End(const Complete& complete, std::size_t allowed) {
  const auto found = places_.find(complete.op_id);
  ND_CORE_CHECK(found != places_.end() && !found->second.done);
  if (done_.size() == kRemembered) ForgetOldest();
  found->second = {true, forgotten_ + done_.size()};
  done_.Push(complete);
  bytes_ += Weight(done_[done_.size() - 1]);
  const std::size_t bound = std::min(kBytes, std::max(kLeastBytes, allowed));
  while (bytes_ > bound) ForgetOldest();
}

std::uint64_t OpLog::SequenceOf(OpId id) const {
  const auto found = places_.find(id);
  return found == places_.end() || found->second.done ? 0 : found->second.number;
}

}  // namespace nd::core
