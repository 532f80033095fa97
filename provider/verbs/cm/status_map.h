// SPDX-License-Identifier: Apache-2.0
// Maps errors and events of rdma_cm to statuses of Network Direct. Pure functions.
#pragma once

#include <rdma/rdma_cma.h>

#include <cstdint>
#include <string>

#include "nd/status.h"

namespace nd::provider::verbs {

// Every function takes errno values as positive numbers and event statuses as rdma_cm gives them (negative
// errno, or a positive InfiniBand reject reason).

// rdma_bind_addr with a port, on an address that the adapter has.
Status FromBind(int error);
// rdma_listen.
Status FromListen(int error);
// rdma_resolve_addr or RDMA_CM_EVENT_ADDR_ERROR.
Status FromAddress(int error);
// rdma_resolve_route or RDMA_CM_EVENT_ROUTE_ERROR. After ETIMEDOUT the caller tries again first.
Status FromRoute(int error);
// The call rdma_connect.
Status FromConnect(int error);
// RDMA_CM_EVENT_UNREACHABLE, REJECTED, CONNECT_ERROR and the others that end an unanswered Connect.
Status FromConnectEvent(rdma_cm_event_type event, int status);
// True when the same Connect may succeed with a new identity: stale connection, duplicate id.
bool WantsFreshIdentity(rdma_cm_event_type event, int status);
// The event that ended an Accept or a CompleteConnect before establishment.
Status FromAcceptEvent(rdma_cm_event_type event, int status);
// rdma_accept, rdma_establish.
Status FromAccept(int error);
// RDMA_CM_EVENT_DISCONNECTED as the answer to our own disconnect.
Status FromDisconnected(int status);

// "REJECTED 28 (consumer)", "UNREACHABLE: Connection timed out".
std::string Describe(rdma_cm_event_type event, int status);

}  // namespace nd::provider::verbs
