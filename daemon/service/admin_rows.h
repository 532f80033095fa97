// SPDX-License-Identifier: Apache-2.0
// Rows of the core as rows of the admin protocol. Pure functions; any thread.
#pragma once

#include "daemon/core/broker.h"
#include "daemon/service/counters_pages.h"
#include "ndbroker/v1/admin.pb.h"
#include "provider/hand_off.h"

namespace nd::service {

struct ConnectionSnapshot {
  core::ConnectionRow row;
  provider::Transport transport = provider::Transport::kNone;
  Traffic traffic;
};

void ToProto(const core::AdapterRow& row, ndbroker::v1::AdapterRow* out);
void ToProto(const core::ListenerRow& row, Time now, ndbroker::v1::ListenerRow* out);
void ToProto(const ConnectionSnapshot& snapshot, Time now, ndbroker::v1::ConnectionRow* out);
void ToProto(const core::EndpointRow& row, ndbroker::v1::EndpointRow* out);
void ToProto(const core::PortRow& row, ndbroker::v1::PortRow* out);
void ToProto(const core::SessionRow& row, Time now, ndbroker::v1::SessionRow* out);
void ToProto(const core::Counters& counters, ndbroker::v1::Counters* out);

}  // namespace nd::service
