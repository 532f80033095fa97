// SPDX-License-Identifier: Apache-2.0
// The one place that decides the Network Direct meaning of every errno, event and reject reason.
#include "provider/verbs/cm/status_map.h"

#include <cerrno>
#include <cstring>

namespace nd::provider::verbs {
namespace {

// InfiniBand reject reasons (IBTA, table of REJ reasons).
enum IbReject : int {
  kNoQp = 1,
  kNoEec = 2,
  kNoResources = 3,
  kTimeout = 4,
  kInvalidServiceId = 8,
  kStaleConnection = 10,
  kInvalidGid = 12,
  kInvalidLid = 13,
  kPortRedirect = 24,
  kPathRedirect = 25,
  kInsufficientResponderResources = 27,
  kConsumer = 28,
  kDuplicateCommId = 30,
};

Status Make(StatusCode code, std::string message, Detail detail = Detail::kTransport, int native = 0) {
  return {code, std::move(message), detail, native};
}

std::string Errno(const char* what, int error) {
  return std::string(what) + ": " + std::strerror(error) + ".";
}

int Positive(int status) {
  return status < 0 ? -status : status;
}

Status Rejected(int status) {
  const std::string text = Describe(RDMA_CM_EVENT_REJECTED, status);
  if (status < 0) {
    switch (-status) {
      case ECONNREFUSED:
        return Make(StatusCode::kConnectionRefused, "Nobody listens on that port.", Detail::kNoListener,
                    -status);
      case ECONNRESET:
        return Make(StatusCode::kConnectionRefused, "The peer refused.", Detail::kPeerRejected, -status);
      case ETIMEDOUT:
        return Make(StatusCode::kIoTimeout, "The peer did not answer.", Detail::kWireTimeout, -status);
      default:
        return Make(StatusCode::kConnectionRefused, text, Detail::kTransport, -status);
    }
  }
  switch (status) {
    case kInvalidServiceId:
      return Make(StatusCode::kConnectionRefused, "Nobody listens on that port.", Detail::kNoListener,
                  status);
    case kConsumer:
      return Make(StatusCode::kConnectionRefused, "The peer refused.", Detail::kPeerRejected, status);
    case kStaleConnection:
    case kDuplicateCommId:
      return Make(StatusCode::kConnectionRefused,
                  "The peer still holds an old connection of this queue pair.", Detail::kStaleConnection,
                  status);
    case kTimeout:
      return Make(StatusCode::kIoTimeout, "The peer gave up waiting.", Detail::kWireTimeout, status);
    case kInvalidGid:
    case kInvalidLid:
    case kPortRedirect:
    case kPathRedirect:
      return Make(StatusCode::kHostUnreachable, text, Detail::kTransport, status);
    case kInsufficientResponderResources:
      return Make(StatusCode::kConnectionRefused,
                  "The peer cannot serve as many reads at once as were asked for.", Detail::kTransport,
                  status);
    default:
      return Make(StatusCode::kConnectionRefused, text, Detail::kTransport, status);
  }
}

}  // namespace

Status FromBind(int error) {
  switch (error) {
    case 0:
      return {};
    case EADDRINUSE:
    case EADDRNOTAVAIL:  // The address is ours, so a wildcard bind of the port overlaps.
      return Make(StatusCode::kSharingViolation, "Another program on this host holds that port.",
                  Detail::kTransport, error);
    case ENODEV:
    case EAFNOSUPPORT:
      return Make(StatusCode::kInvalidAddress, "No RDMA device has that address.", Detail::kTransport, error);
    case EACCES:
    case EPERM:
      return Make(StatusCode::kAccessDenied,
                  "The broker may not bind ports below 1024 (CAP_NET_BIND_SERVICE).", Detail::kTransport,
                  error);
    case EINVAL:
      return Make(StatusCode::kAddressAlreadyAssociated, "The endpoint is bound already.", Detail::kTransport,
                  error);
    default:
      return Make(StatusCode::kInsufficientResources, Errno("rdma_bind_addr", error), Detail::kTransport,
                  error);
  }
}

Status FromListen(int error) {
  switch (error) {
    case 0:
      return {};
    case EADDRINUSE:
    case EADDRNOTAVAIL:
      return Make(StatusCode::kSharingViolation, "Another program on this host holds that port.",
                  Detail::kTransport, error);
    default:
      return Make(StatusCode::kInsufficientResources, Errno("rdma_listen", error), Detail::kTransport, error);
  }
}

Status FromAddress(int status) {
  const int error = Positive(status);
  switch (error) {
    case 0:
      return {};
    case ENETUNREACH:
      return Make(StatusCode::kNetworkUnreachable, "There is no route to that network.", Detail::kTransport,
                  error);
    case ENODEV:
      return Make(StatusCode::kNetworkUnreachable,
                  "The route to that address does not lead over an RDMA device.", Detail::kTransport, error);
    case EINVAL:
      return Make(StatusCode::kNetworkUnreachable, "No connection can be made to that address.",
                  Detail::kTransport, error);
    case EHOSTUNREACH:
    case ETIMEDOUT:
      return Make(StatusCode::kHostUnreachable, "The host does not answer on its network.",
                  Detail::kTransport, error);
    case EADDRNOTAVAIL:
    case EADDRINUSE:
      return Make(StatusCode::kAddressAlreadyExists, "A connection between these addresses exists already.",
                  Detail::kTransport, error);
    case EACCES:
    case EPERM:
      return Make(StatusCode::kNetworkUnreachable, "The route forbids that destination.", Detail::kTransport,
                  error);
    default:
      return Make(StatusCode::kInsufficientResources, Errno("rdma_resolve_addr", error), Detail::kTransport,
                  error);
  }
}

Status FromRoute(int status) {
  const int error = Positive(status);
  switch (error) {
    case 0:
      return {};
    case ETIMEDOUT:
      return Make(StatusCode::kIoTimeout, "The subnet manager did not answer the path query.",
                  Detail::kWireTimeout, error);
    case ENOMEM:
      return Make(StatusCode::kInsufficientResources, Errno("rdma_resolve_route", error), Detail::kTransport,
                  error);
    default:
      return Make(StatusCode::kHostUnreachable, Errno("No path to the host", error), Detail::kTransport,
                  error);
  }
}

Status FromConnect(int error) {
  switch (error) {
    case 0:
      return {};
    case ENETUNREACH:
      return FromAddress(ENETUNREACH);
    case EHOSTUNREACH:
      return FromAddress(EHOSTUNREACH);
    case ETIMEDOUT:
      return Make(StatusCode::kIoTimeout, "The peer did not answer.", Detail::kWireTimeout, error);
    case ECONNREFUSED:
      return Make(StatusCode::kConnectionRefused, "Nobody listens on that port.", Detail::kNoListener, error);
    case ECONNRESET:
      return Make(StatusCode::kConnectionRefused, "The peer refused.", Detail::kTransport, error);
    case EADDRINUSE:
    case EADDRNOTAVAIL:
      return Make(StatusCode::kAddressAlreadyExists,
                  "The local port is in use for another connection of this host.", Detail::kTransport, error);
    case EINVAL:
      return Make(StatusCode::kInvalidDeviceState, "The queue pair is gone or was connected before.",
                  Detail::kTransport, error);
    default:
      return Make(StatusCode::kInsufficientResources, Errno("rdma_connect", error), Detail::kTransport,
                  error);
  }
}

Status FromConnectEvent(rdma_cm_event_type event, int status) {
  const int error = Positive(status);
  switch (event) {
    case RDMA_CM_EVENT_ADDR_ERROR:
      return FromAddress(status);
    case RDMA_CM_EVENT_ROUTE_ERROR:
      return FromRoute(status);
    case RDMA_CM_EVENT_REJECTED:
      return Rejected(status);
    case RDMA_CM_EVENT_UNREACHABLE:
      if (error == ETIMEDOUT) {
        return Make(StatusCode::kIoTimeout, "The peer did not answer.", Detail::kWireTimeout, error);
      }
      return Make(StatusCode::kHostUnreachable, Describe(event, status), Detail::kTransport, error);
    case RDMA_CM_EVENT_CONNECT_ERROR:
      if (error == ENOMEM) {
        return Make(StatusCode::kInsufficientResources, Describe(event, status), Detail::kTransport, error);
      }
      if (error == EADDRINUSE) return FromConnect(error);
      return Make(StatusCode::kConnectionRefused, Describe(event, status), Detail::kTransport, error);
    case RDMA_CM_EVENT_ADDR_CHANGE:
      return Make(StatusCode::kHostUnreachable, "The network's hardware address changed.", Detail::kTransport,
                  error);
    case RDMA_CM_EVENT_DEVICE_REMOVAL:
      return Make(StatusCode::kDeviceRemoved, "The RDMA device was removed.", Detail::kNone, error);
    default:
      return Make(StatusCode::kConnectionRefused, Describe(event, status), Detail::kTransport, error);
  }
}

bool WantsFreshIdentity(rdma_cm_event_type event, int status) {
  return event == RDMA_CM_EVENT_REJECTED && (status == kStaleConnection || status == kDuplicateCommId);
}

Status FromAcceptEvent(rdma_cm_event_type event, int status) {
  const int error = Positive(status);
  switch (event) {
    case RDMA_CM_EVENT_UNREACHABLE:
    case RDMA_CM_EVENT_TIMEWAIT_EXIT:
      return Make(StatusCode::kIoTimeout, "The peer did not confirm the connection.", Detail::kWireTimeout,
                  error);
    case RDMA_CM_EVENT_REJECTED:
      // Reason 28 is a refusal by the application or the end of its process. The wire does not distinguish
      // them.
      return Make(StatusCode::kConnectionAborted, "The peer withdrew.",
                  status == kConsumer ? Detail::kPeerRejected : Detail::kPeerWithdrew, error);
    case RDMA_CM_EVENT_DISCONNECTED:
      return Make(StatusCode::kConnectionAborted, "The peer withdrew.", Detail::kPeerWithdrew, error);
    case RDMA_CM_EVENT_DEVICE_REMOVAL:
      return Make(StatusCode::kDeviceRemoved, "The RDMA device was removed.", Detail::kNone, error);
    default:
      return Make(StatusCode::kConnectionAborted, Describe(event, status), Detail::kTransport, error);
  }
}

Status FromAccept(int error) {
  switch (error) {
    case 0:
      return {};
    case ETIMEDOUT:
      return Make(StatusCode::kIoTimeout, "The peer did not confirm the connection.", Detail::kWireTimeout,
                  error);
    case ENOMEM:
      return Make(StatusCode::kInsufficientResources, Errno("rdma_accept", error), Detail::kTransport, error);
    default:  // EINVAL: the peer is gone.
      return Make(StatusCode::kConnectionAborted, "The peer withdrew.", Detail::kPeerWithdrew, error);
  }
}

Status FromDisconnected(int status) {
  if (status == -ETIMEDOUT) {
    return Make(StatusCode::kIoTimeout, "The peer did not answer the goodbye.", Detail::kWireTimeout,
                ETIMEDOUT);
  }
  return {};
}

std::string Describe(rdma_cm_event_type event, int status) {
  std::string name = rdma_event_str(event);
  constexpr std::string_view kPrefix = "RDMA_CM_EVENT_";
  if (name.starts_with(kPrefix)) name.erase(0, kPrefix.size());
  if (status == 0) return name + ".";
  if (status < 0) return name + ": " + std::strerror(-status) + ".";
  return name + " with reason " + std::to_string(status) + ".";
}

}  // namespace nd::provider::verbs
