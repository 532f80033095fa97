// SPDX-License-Identifier: Apache-2.0
// The messages of a session on its own fd lane: no second socket, and no thread between the client and the
// loop.
//
// Loop thread. Keeps the lane until End() or Cut().
#pragma once

#include <cstddef>
#include <vector>

#include "daemon/service/client_lane.h"
#include "daemon/service/client_session.h"

namespace nd::service {

class LaneStream final : public SessionSink {
 public:
  LaneStream(ClientLane& lane, std::size_t queue_bytes) : lane_(&lane), queue_bytes_(queue_bytes) {}

  bool Send(const session::ServerMessage& message) override;
  bool Send(const session::Completion& completion) override;
  // The last message leaves only if the socket takes it now; otherwise the client sees only the hang-up.
  void End(const Status& why) override;
  void Cut() override { lane_ = nullptr; }
  void Taken() override {}

 private:
  // Sends bytes_, or the refusal of this operation when they are too many.
  bool SendBytes(core::OpId op_id);

  ClientLane* lane_;
  const std::size_t queue_bytes_;
  std::vector<std::byte> bytes_;  // Reused to keep its memory.
};

}  // namespace nd::service
