// SPDX-License-Identifier: Apache-2.0
#include "daemon/service/lane_stream.h"

#include <string>

#include "session/codec.h"

namespace nd::service {
namespace {

// Replaces a completion that no datagram can carry by an error; other messages are small.
session::Completion TooLarge(core::OpId op_id, std::size_t size) {
  return {op_id,
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
  const auto* const completion = std::get_if<session::Completion>(&message);
  return SendBytes(completion != nullptr ? completion->op_id : 0);
}

bool LaneStream::Send(const session::Completion& completion) {
  if (lane_ == nullptr) return true;
  bytes_.clear();
  session::Append(completion, &bytes_);
  return SendBytes(completion.op_id);
}

bool LaneStream::SendBytes(core::OpId op_id) {
  if (bytes_.size() > provider::kMaxServerMessage) {
    const session::Completion refusal = TooLarge(op_id, bytes_.size());
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
