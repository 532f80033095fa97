// SPDX-License-Identifier: Apache-2.0
#include "daemon/service/lane_stream.h"

#include <string>
#include <utility>

namespace nd::service {
namespace {

// An answer that no datagram can carry is told instead of sent; other messages are small.
pb::ServerMessage TooLarge(const pb::ServerMessage& message, std::size_t size) {
  return EncodeAnswer(message.completion().op_id(),
                      Status(StatusCode::kInsufficientResources,
                             "the answer has " + std::to_string(size) + " bytes, the fd lane carries " +
                                 std::to_string(provider::kMaxServerMessage) +
                                 "; hold the session by gRPC (NDBROKER_SESSION=grpc)"));
}

}  // namespace

bool LaneStream::Send(pb::ServerMessage message) {
  if (lane_ == nullptr) return true;
  std::size_t size = message.ByteSizeLong();
  if (size > provider::kMaxServerMessage) {
    message = TooLarge(message, size);
    size = message.ByteSizeLong();
  }
  bytes_.resize(size);
  message.SerializeWithCachedSizesToArray(reinterpret_cast<std::uint8_t*>(bytes_.data()));
  return lane_->Say(bytes_, queue_bytes_);
}

void LaneStream::End(const Status& why) {
  pb::ServerMessage message;
  ToProto(why, message.mutable_session_end()->mutable_status());
  Send(std::move(message));
  lane_ = nullptr;
}

}  // namespace nd::service
