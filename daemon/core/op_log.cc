// SPDX-License-Identifier: Apache-2.0
// A client whose stream broke sends again what it does not know the outcome of; this makes that harmless.
#include "daemon/core/op_log.h"

#include "daemon/core/check.h"

namespace nd::core {

OpLog::Known OpLog::Lookup(OpId id) const {
  if (running_.contains(id)) return Known::kRunning;
  return done_index_.contains(id) ? Known::kDone : Known::kNew;
}

const Complete& OpLog::Done(OpId id) const {
  const auto found = done_index_.find(id);
  ND_CORE_CHECK(found != done_index_.end());
  return done_[found->second];
}

void OpLog::Begin(OpId id, std::uint64_t sequence) {
  const bool added = running_.try_emplace(id, sequence).second;
  ND_CORE_CHECK(added);
}

void OpLog::End(const Complete& complete) {
  const std::size_t erased = running_.erase(complete.op_id);
  ND_CORE_CHECK(erased == 1);
  if (done_.size() < kRemembered) {
    done_index_[complete.op_id] = done_.size();
    done_.push_back(complete);
    return;
  }
  done_index_.erase(done_[oldest_].op_id);
  done_index_[complete.op_id] = oldest_;
  done_[oldest_] = complete;
  oldest_ = (oldest_ + 1) % kRemembered;
}

std::uint64_t OpLog::SequenceOf(OpId id) const {
  const auto found = running_.find(id);
  return found == running_.end() ? 0 : found->second;
}

}  // namespace nd::core
