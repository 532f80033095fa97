// SPDX-License-Identifier: Apache-2.0
#include "provider/verbs/cm/status_map.h"

#include <gtest/gtest.h>

#include <cerrno>

namespace nd::provider::verbs {
namespace {

struct ErrnoRow {
  int error;
  StatusCode code;
};

void Check(Status (*map)(int), std::initializer_list<ErrnoRow> rows) {
  for (const ErrnoRow& row : rows) {
    const Status status = map(row.error);
    EXPECT_EQ(Name(status.code()), Name(row.code)) << row.error << " " << status.ToString();
  }
}

TEST(StatusMap, Bind) {
  Check(FromBind, {{0, StatusCode::kSuccess},
                   {EADDRINUSE, StatusCode::kSharingViolation},
                   {EADDRNOTAVAIL, StatusCode::kSharingViolation},
                   {ENODEV, StatusCode::kInvalidAddress},
                   {EAFNOSUPPORT, StatusCode::kInvalidAddress},
                   {EACCES, StatusCode::kAccessDenied},
                   {EINVAL, StatusCode::kAddressAlreadyAssociated},
                   {ENOMEM, StatusCode::kInsufficientResources},
                   {EMFILE, StatusCode::kInsufficientResources}});
}

TEST(StatusMap, Listen) {
  Check(FromListen, {{0, StatusCode::kSuccess},
                     {EADDRINUSE, StatusCode::kSharingViolation},
                     {ENOMEM, StatusCode::kInsufficientResources}});
}

TEST(StatusMap, AddressPhase) {
  for (const int sign : {1, -1}) {
    EXPECT_EQ(FromAddress(sign * ENETUNREACH).code(), StatusCode::kNetworkUnreachable);
    EXPECT_EQ(FromAddress(sign * EHOSTUNREACH).code(), StatusCode::kHostUnreachable);
    EXPECT_EQ(FromAddress(sign * ENODEV).code(), StatusCode::kNetworkUnreachable);
    EXPECT_EQ(FromAddress(sign * ETIMEDOUT).code(), StatusCode::kHostUnreachable);
    EXPECT_EQ(FromAddress(sign * EADDRNOTAVAIL).code(), StatusCode::kAddressAlreadyExists);
    EXPECT_EQ(FromAddress(sign * EINVAL).code(), StatusCode::kNetworkUnreachable);
    EXPECT_EQ(FromAddress(sign * ENOMEM).code(), StatusCode::kInsufficientResources);
  }
}

TEST(StatusMap, RoutePhase) {
  EXPECT_EQ(FromRoute(-ETIMEDOUT).code(), StatusCode::kIoTimeout);
  EXPECT_EQ(FromRoute(-EINVAL).code(), StatusCode::kHostUnreachable);
  EXPECT_EQ(FromRoute(-ENOMEM).code(), StatusCode::kInsufficientResources);
}

struct EventRow {
  rdma_cm_event_type event;
  int status;
  StatusCode code;
  Detail detail;
};

TEST(StatusMap, ConnectEvents) {
  constexpr auto kRefused = StatusCode::kConnectionRefused;
  for (const EventRow& row : std::initializer_list<EventRow>{
           {RDMA_CM_EVENT_UNREACHABLE, -ETIMEDOUT, StatusCode::kIoTimeout, Detail::kWireTimeout},
           {RDMA_CM_EVENT_UNREACHABLE, -EHOSTUNREACH, StatusCode::kHostUnreachable, Detail::kTransport},
           {RDMA_CM_EVENT_REJECTED, 8, kRefused, Detail::kNoListener},
           {RDMA_CM_EVENT_REJECTED, 28, kRefused, Detail::kPeerRejected},
           {RDMA_CM_EVENT_REJECTED, 3, kRefused, Detail::kTransport},
           {RDMA_CM_EVENT_REJECTED, 27, kRefused, Detail::kTransport},
           {RDMA_CM_EVENT_REJECTED, 10, kRefused, Detail::kStaleConnection},
           {RDMA_CM_EVENT_REJECTED, 30, kRefused, Detail::kStaleConnection},
           {RDMA_CM_EVENT_REJECTED, 4, StatusCode::kIoTimeout, Detail::kWireTimeout},
           {RDMA_CM_EVENT_REJECTED, 12, StatusCode::kHostUnreachable, Detail::kTransport},
           {RDMA_CM_EVENT_REJECTED, 13, StatusCode::kHostUnreachable, Detail::kTransport},
           {RDMA_CM_EVENT_REJECTED, 24, StatusCode::kHostUnreachable, Detail::kTransport},
           {RDMA_CM_EVENT_REJECTED, 25, StatusCode::kHostUnreachable, Detail::kTransport},
           {RDMA_CM_EVENT_REJECTED, 33, kRefused, Detail::kTransport},
           {RDMA_CM_EVENT_REJECTED, -ECONNREFUSED, kRefused, Detail::kNoListener},
           {RDMA_CM_EVENT_REJECTED, -ECONNRESET, kRefused, Detail::kPeerRejected},
           {RDMA_CM_EVENT_CONNECT_ERROR, -ENOMEM, StatusCode::kInsufficientResources, Detail::kTransport},
           {RDMA_CM_EVENT_CONNECT_ERROR, -EADDRINUSE, StatusCode::kAddressAlreadyExists, Detail::kTransport},
           {RDMA_CM_EVENT_CONNECT_ERROR, -EINVAL, kRefused, Detail::kTransport},
           {RDMA_CM_EVENT_DEVICE_REMOVAL, 0, StatusCode::kDeviceRemoved, Detail::kNone},
       }) {
    const Status status = FromConnectEvent(row.event, row.status);
    EXPECT_EQ(Name(status.code()), Name(row.code)) << Describe(row.event, row.status);
    EXPECT_EQ(Name(status.detail()), Name(row.detail)) << Describe(row.event, row.status);
  }
}

TEST(StatusMap, OnlyStaleAndDuplicateAreTriedAgain) {
  for (int reason = 0; reason < 64; ++reason) {
    EXPECT_EQ(WantsFreshIdentity(RDMA_CM_EVENT_REJECTED, reason), reason == 10 || reason == 30) << reason;
    EXPECT_FALSE(WantsFreshIdentity(RDMA_CM_EVENT_UNREACHABLE, reason));
  }
}

TEST(StatusMap, AcceptEvents) {
  EXPECT_EQ(FromAcceptEvent(RDMA_CM_EVENT_REJECTED, 28).code(), StatusCode::kConnectionAborted);
  EXPECT_EQ(FromAcceptEvent(RDMA_CM_EVENT_REJECTED, 28).detail(), Detail::kPeerRejected);
  EXPECT_EQ(FromAcceptEvent(RDMA_CM_EVENT_REJECTED, 4).detail(), Detail::kPeerWithdrew);
  EXPECT_EQ(FromAcceptEvent(RDMA_CM_EVENT_DISCONNECTED, 0).code(), StatusCode::kConnectionAborted);
  EXPECT_EQ(FromAcceptEvent(RDMA_CM_EVENT_UNREACHABLE, -ETIMEDOUT).code(), StatusCode::kIoTimeout);
  EXPECT_EQ(FromAcceptEvent(RDMA_CM_EVENT_CONNECT_ERROR, -EINVAL).code(), StatusCode::kConnectionAborted);
  EXPECT_EQ(FromAccept(EINVAL).code(), StatusCode::kConnectionAborted);
  EXPECT_EQ(FromAccept(0).code(), StatusCode::kSuccess);
}

TEST(StatusMap, GoodbyeUnanswered) {
  EXPECT_EQ(FromDisconnected(0).code(), StatusCode::kSuccess);
  EXPECT_EQ(FromDisconnected(-ETIMEDOUT).code(), StatusCode::kIoTimeout);
}

}  // namespace
}  // namespace nd::provider::verbs
