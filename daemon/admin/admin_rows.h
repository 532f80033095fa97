// SPDX-License-Identifier: Apache-2.0
// Converts rows of the core to rows of the admin protocol. Pure functions; any thread.
#pragma once

#include <string_view>

#include "daemon/core/broker.h"
#include "daemon/service/counters_pages.h"
#include "ndbroker/v1/admin.pb.h"

namespace nd::service {

struct ConnectionSnapshot {
  core::ConnectionRow row;
  std::string_view transport;  // Its name for display.
  Address wire_local, wire_peer;
  Traffic traffic;
};

// The duration of one phase.
void ToProto(const core::AdapterRow& row, ndbroker::v1::AdapterRow* out);
void ToProto(const core::ListenerRow& row, Time now, ndbroker::v1::ListenerRow* out);
void ToProto(const ConnectionSnapshot& snapshot, Time now, ndbroker::v1::ConnectionRow* out);
void ToProto(const Traffic& traffic, ndbroker::v1::Traffic* out);
void ToProto(const core::QueuePairRow& row, const Traffic& traffic, ndbroker::v1::QueuePairRow* out);
void ToProto(const Region& region, const core::SessionRow& session, ndbroker::v1::MemoryRegionRow* out);
void ToProto(const core::EndpointRow& row, ndbroker::v1::EndpointRow* out);
void ToProto(const core::PortRow& row, ndbroker::v1::PortRow* out);
void ToProto(const core::SessionRow& row, Time now, ndbroker::v1::SessionRow* out);
void ToProto(const core::Counters& counters, ndbroker::v1::Counters* out);

}  // namespace nd::service
