// SPDX-License-Identifier: Apache-2.0
// Converts values of types.proto for the Admin service. The messages of a session have their own codec
// (session/codec.h). Pure functions; any thread.
#pragma once

#include "nd/status.h"
#include "nd/types.h"
#include "ndbroker/v1/types.pb.h"

namespace nd::service {

namespace pb = ::ndbroker::v1;

// A malformed address stays malformed: no number is truncated.
Address FromProto(const pb::Address& message);
void ToProto(const Address& address, pb::Address* out);
void ToProto(const Status& status, pb::Status* out);
void ToProto(const ReadLimits& limits, pb::ReadLimits* out);
void ToProto(const AdapterInfo& info, pb::AdapterInfo* out);

}  // namespace nd::service
