// SPDX-License-Identifier: Apache-2.0
// The queues of one listener: waiting requests and waiting GetConnectionRequests. The oldest request goes to
// the oldest GetConnectionRequest, so never both kinds wait.
//
// A listener that delivers requests as events has no GetConnectionRequest. There a request counts as waiting
// until the application answers it, because nothing else bounds their number.
#pragma once

#include <cstdint>
#include <optional>

#include "absl/container/btree_map.h"
#include "daemon/core/ids.h"
#include "provider/cm.h"

namespace nd::core {

class ListenerQueue {
 public:
  enum class Judgement : std::uint8_t { kDeliver, kWait, kPaused, kFull };

  // The number of requests that may wait: that of the application (0: no limit of its own), capped by the
  // broker.
  static std::uint32_t EffectiveBacklog(std::uint32_t asked, std::uint32_t cap) {
    return asked == 0 || asked > cap ? cap : asked;
  }

  void set_limit(std::uint32_t limit) { limit_ = limit; }
  std::uint32_t limit() const { return limit_; }
  void set_paused(bool paused) { paused_ = paused; }
  bool paused() const { return paused_; }

  // The decision for a request that arrives now. With events, kWait means deliver.
  Judgement Judge() const;
  // Counts a request that was delivered as an event, until its answer, withdrawal or end.
  void AddUnanswered() { ++unanswered_; }
  void RemoveUnanswered();
  // The number that counts against the limit.
  std::uint32_t backlog() const { return requests() + unanswered_; }

  // Keys are unique and grow with time.
  void AddRequest(std::uint64_t key, provider::InboundRequest request);
  std::optional<provider::InboundRequest> TakeOldestRequest();
  std::optional<provider::InboundRequest> TakeRequest(std::uint64_t key);
  void AddGet(std::uint64_t key, Handle connector);
  std::optional<Handle> TakeOldestGet();
  bool RemoveGet(std::uint64_t key);

  std::uint32_t requests() const { return static_cast<std::uint32_t>(requests_.size()); }
  std::uint32_t gets() const { return static_cast<std::uint32_t>(gets_.size()); }
  const absl::btree_map<std::uint64_t, provider::InboundRequest>& waiting_requests() const {
    return requests_;
  }
  const absl::btree_map<std::uint64_t, Handle>& waiting_gets() const { return gets_; }

 private:
  std::uint32_t limit_ = 0;
  bool paused_ = false;
  std::uint32_t unanswered_ = 0;
  absl::btree_map<std::uint64_t, provider::InboundRequest> requests_;
  absl::btree_map<std::uint64_t, Handle> gets_;
};

}  // namespace nd::core
