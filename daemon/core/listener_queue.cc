// SPDX-License-Identifier: Apache-2.0
// A file of its own, so that the FIFO rules can be tested alone.
#include "daemon/core/listener_queue.h"

#include <utility>

#include "daemon/core/check.h"

namespace nd::core {

ListenerQueue::Judgement ListenerQueue::Judge() const {
  if (paused_) return Judgement::kPaused;
  if (!gets_.empty()) return Judgement::kDeliver;
  return backlog() < limit_ ? Judgement::kWait : Judgement::kFull;
}

void ListenerQueue::RemoveUnanswered() {
  ND_CORE_CHECK(unanswered_ > 0);
  --unanswered_;
}

void ListenerQueue::AddRequest(std::uint64_t key, provider::InboundRequest request) {
  ND_CORE_CHECK(gets_.empty());
  requests_.insert({key, std::move(request)});
}

std::optional<provider::InboundRequest> ListenerQueue::TakeOldestRequest() {
  if (requests_.empty()) return std::nullopt;
  return TakeRequest(requests_.begin()->first);
}

std::optional<provider::InboundRequest> ListenerQueue::TakeRequest(std::uint64_t key) {
  const auto found = requests_.find(key);
  if (found == requests_.end()) return std::nullopt;
  std::optional<provider::InboundRequest> request = std::move(found->second);
  requests_.erase(found);
  return request;
}

void ListenerQueue::AddGet(std::uint64_t key, Handle connector) {
  ND_CORE_CHECK(requests_.empty());
  gets_.insert({key, connector});
}

std::optional<Handle> ListenerQueue::TakeOldestGet() {
  if (gets_.empty()) return std::nullopt;
  const Handle connector = gets_.begin()->second;
  gets_.erase(gets_.begin());
  return connector;
}

bool ListenerQueue::RemoveGet(std::uint64_t key) {
  return gets_.erase(key) != 0;
}

}  // namespace nd::core
