// SPDX-License-Identifier: Apache-2.0
// What waits at one listener: requests for a GetConnectionRequest, and GetConnectionRequests for a request.
// Oldest meets oldest. Never are both kinds waiting at once.
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

  // Requests that may wait: what the application asked for (0: no limit of its own) within the broker's cap.
  static std::uint32_t EffectiveBacklog(std::uint32_t asked, std::uint32_t cap) {
    return asked == 0 || asked > cap ? cap : asked;
  }

  void set_limit(std::uint32_t limit) { limit_ = limit; }
  std::uint32_t limit() const { return limit_; }
  void set_paused(bool paused) { paused_ = paused; }
  bool paused() const { return paused_; }

  // What becomes of a request that arrives now.
  Judgement Judge() const;

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
  absl::btree_map<std::uint64_t, provider::InboundRequest> requests_;
  absl::btree_map<std::uint64_t, Handle> gets_;
};

}  // namespace nd::core
