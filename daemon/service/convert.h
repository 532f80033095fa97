// SPDX-License-Identifier: Apache-2.0
// Messages to core values and back. Pure functions; any thread.
//
// From a message nothing is believed: a number too large for its type, an unknown enumerator or a missing
// operation is an error and never a truncation. Addresses are carried even when malformed, for the core to
// judge.
#pragma once

#include <string>

#include "daemon/core/action.h"
#include "daemon/core/event.h"
#include "daemon/service/peer.h"
#include "ndbroker/v1/session.pb.h"

namespace nd::service {

namespace pb = ::ndbroker::v1;

inline constexpr std::uint32_t kProtocolVersion = 1;

Address FromProto(const pb::Address& message);
void ToProto(const Address& address, pb::Address* out);
// INVALID_PARAMETER as the result: a code or detail that does not exist; then `out` is as before.
Status FromProto(const pb::Status& message, Status* out);
void ToProto(const Status& status, pb::Status* out);
ReadLimits FromProto(const pb::ReadLimits& message);
void ToProto(const ReadLimits& limits, pb::ReadLimits* out);
void ToProto(const AdapterInfo& info, pb::AdapterInfo* out);

// Everything but Hello. NOT_SUPPORTED: no operation that this version knows; INVALID_DEVICE_REQUEST: a second
// Hello; INVALID_PARAMETER: a field with an impossible value.
Result<core::Op> DecodeOp(const pb::ClientMessage& message);

struct HelloRequest {
  std::string token;  // 16 bytes.
  std::string application;
};
// ACCESS_DENIED: no token; NOT_SUPPORTED: no common version; INVALID_PARAMETER: the application's name;
// INVALID_DEVICE_REQUEST: not a Hello.
Result<HelloRequest> DecodeHello(const pb::ClientMessage& message);

pb::ServerMessage Encode(const core::Complete& completion);
pb::ServerMessage Encode(const core::SendConnectEvent& event);
pb::ServerMessage Encode(const core::SendDisconnectEvent& event);
pb::ServerMessage Encode(const core::SendTransportCommand& command);
pb::ServerMessage Encode(const core::SendAdapterEvent& event);
// An answer that the core had no part in.
pb::ServerMessage EncodeAnswer(core::OpId op_id, const Status& status);

}  // namespace nd::service
