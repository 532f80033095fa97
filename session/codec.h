// SPDX-License-Identifier: Apache-2.0
// The codec of a session's messages: the protobuf encoding of proto/ndbroker/v1/session.proto. The fd
// lane and gRPC carry these bytes.
//
// Decoding accepts what a protobuf parser accepts: fields in any order, unknown fields, the last of several
// values of one number. There is one exception: a message inside a message, or the operation, may be given
// only once; a protobuf parser would merge both.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "nd/status.h"
#include "session/events.h"
#include "session/operations.h"

namespace nd::session {

// Appends the encoded message. A default value takes no bytes, except a Status, which is always there.
void Append(const ClientMessage& message, std::vector<std::byte>* out);
void Append(const ServerMessage& message, std::vector<std::byte>* out);
void Append(const Completion& completion, std::vector<std::byte>* out);

// INVALID_PARAMETER: the bytes are no such message; the sentence names the field. Values are not judged here;
// see check.h.
Result<ClientMessage> DecodeClientMessage(std::span<const std::byte> bytes);
// As above for messages of the broker. A code, detail, reason or technology that this version does not know
// is replaced by INTERNAL_ERROR, none, unknown and undefined: a newer broker may send them. Empty: a kind of
// message that this version does not know.
Result<std::optional<ServerMessage>> DecodeServerMessage(std::span<const std::byte> bytes);

}  // namespace nd::session
