// SPDX-License-Identifier: Apache-2.0
#include "daemon/service/lane_stream.h"

#include <string>

#include "session/codec.h"

namespace nd::service {
namespace {

// Replaces a completion that no datagram can carry by an error; other messages are small.
session::Completion TooLarge(const session::ServerMessage& message, std::size_t size) {
  const auto* completion = std::get_if<session::Completion>(&message);
  return {completion != nullptr ? completion->op_id : 0,
          Status(StatusCode::kInsufficientResources,
                 "the answer has " + std::to_string(size) + " bytes, the fd lane carries " +
                     std::to_string(provider::kMaxServerMessage) +
                     "; hold the session by gRPC (NDBROKER_SESSION=grpc)"),
          {}};
}

}  // namespace

bool LaneStream::Send(const session::ServerMessage& message) {
  if (lane_ == nullptr) return true;
  bytes_.clear();
  session::Append(message, &bytes_);
  if (bytes_.size() > provider::kMaxServerMessage) {
    const session::Completion refusal = TooLarge(message, bytes_.size());
    bytes_.clear();
    session::Append(refusal, &bytes_);
  }
  return lane_->SendMessage(bytes_, queue_bytes_);
}

void LaneStream::End(const Status& why) {
  Send(session::SessionEnd{why});
  lane_ = nullptr;
}

}  // namespace nd::service
