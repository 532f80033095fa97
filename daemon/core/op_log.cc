// SPDX-License-Identifier: Apache-2.0
// After a broken stream a client repeats operations without a known result; this makes repeats harmless.
#include "daemon/core/op_log.h"

#include <algorithm>

#include "daemon/core/check.h"
#include "session/weight.h"

namespace nd::core {

OpLog::Known OpLog::Lookup(OpId id) const {
  if (id > highest_) return Known::kNew;
  if (id == latest_.id) return Known::kRunning;
  const auto found = places_.find(id);
  if (found == places_.end()) return Known::kNew;
  return found->second.done ? Known::kDone : Known::kRunning;
}

const Complete& OpLog::Done(OpId id) const {
  const auto found = places_.find(id);
  ND_CORE_CHECK(found != places_.end() && found->second.done);
  return done_[static_cast<std::size_t>(found->second.number - forgotten_)];
}

void OpLog::PlaceLatest() {
  if (latest_.id == 0) return;
  const bool added = places_.try_emplace(latest_.id, Place{false, latest_.sequence}).second;
  ND_CORE_CHECK(added);
  latest_ = {};
}

void OpLog::Begin(OpId id, std::uint64_t sequence) {
  ND_CORE_CHECK(id != 0);
  PlaceLatest();
  latest_ = {id, sequence};
  highest_ = std::max(highest_, id);
}

std::size_t OpLog::Weight(const Complete& complete) {
  // Twice the entry, because a hash table is half empty.
  constexpr std::size_t kIndex = 2 * (sizeof(OpId) + sizeof(Place) + 1);
  return sizeof(Complete) + kIndex + session::HeapBytes(complete);
}

void OpLog::ForgetOldest() {
  bytes_ -= Weight(done_[0]);
  places_.erase(done_[0].op_id);
  done_.Drop();
  ++forgotten_;
}

void OpLog::End(const Complete& complete, std::size_t allowed) {
  const Place place{true, forgotten_ + done_.size()};
  if (complete.op_id == latest_.id) {
    latest_ = {};
    const bool added = places_.try_emplace(complete.op_id, place).second;
    ND_CORE_CHECK(added);
  } else {
    const auto found = places_.find(complete.op_id);
    ND_CORE_CHECK(found != places_.end() && !found->second.done);
    found->second = place;
  }
  if (done_.size() == kRemembered) ForgetOldest();
  done_.Extend() = complete;
  bytes_ += Weight(done_[done_.size() - 1]);
  const std::size_t bound = std::min(kBytes, std::max(kLeastBytes, allowed));
  while (bytes_ > bound) ForgetOldest();
}

std::uint64_t OpLog::SequenceOf(OpId id) const {
  if (id == latest_.id) return latest_.sequence;
  const auto found = places_.find(id);
  return found == places_.end() || found->second.done ? 0 : found->second.number;
}

}  // namespace nd::core
