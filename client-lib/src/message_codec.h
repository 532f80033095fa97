// SPDX-License-Identifier: Apache-2.0
// The library's plain messages to those of the protocol and back, whatever carries them.
#pragma once

#include <optional>
#include <string>

#include "client-lib/src/message.h"
#include "ndbroker/v1/session.pb.h"

namespace nd::client {

namespace pb = ::ndbroker::v1;

void ToProto(const Op& op, pb::ClientMessage* to);
// Empty for messages that need no action here: an adapter that is enabled again, kinds of a newer broker.
std::optional<Incoming> FromProto(const pb::ServerMessage& from);
// What the end of a session means for its operations: ACCESS_DENIED and INSUFFICIENT_RESOURCES stay,
// everything else is DEVICE_REMOVED.
Status SessionEnded(StatusCode code, const std::string& why);

}  // namespace nd::client
