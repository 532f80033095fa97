// SPDX-License-Identifier: Apache-2.0
// A session's messages on its own fd lane: no second socket, no thread between the client and the loop.
//
// Loop thread. Holds on to the lane until End() or Cut().
#pragma once

#include <cstddef>
#include <vector>

#include "daemon/service/lane.h"
#include "daemon/service/session.h"

namespace nd::service {

class LaneStream final : public SessionSink {
 public:
  LaneStream(Lane& lane, std::size_t queue_bytes) : lane_(&lane), queue_bytes_(queue_bytes) {}

  bool Send(pb::ServerMessage message) override;
  // The last message leaves only if the socket takes it now; the client's other way to learn is the hang-up.
  void End(const Status& why) override;
  void Cut() override { lane_ = nullptr; }
  void Taken() override {}

 private:
  Lane* lane_;
  const std::size_t queue_bytes_;
  std::vector<std::byte> bytes_;  // Kept for its memory.
};

}  // namespace nd::service
