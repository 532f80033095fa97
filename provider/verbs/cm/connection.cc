// SPDX-License-Identifier: Apache-2.0
// The order of rdma_cm calls for a queue pair of another process is subtle, so it is kept in one place.
#include "provider/verbs/cm/connection.h"

#include <fcntl.h>
#include <sys/epoll.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "provider/verbs/attributes.h"
#include "provider/verbs/cm/status_map.h"
#include "provider/verbs/device_limits.h"
#include "provider/verbs/transport.h"

namespace nd::provider::verbs {
namespace {

constexpr int kResolveTimeoutMs = 2000;
constexpr unsigned kIdentities =
    3;  // Attempts, each with a new id, while the peer still holds an old connection.
constexpr unsigned kRouteQueries = 3;
// A Send to a peer without a posted receive is retried for about a second: 7 times 163.84 ms (code 28).
constexpr std::uint8_t kRnrRetries = 6;
constexpr std::uint8_t kMinRnrTimer = 28;
// rxe takes 7 for unlimited retries and would not notice a dead peer.
constexpr std::uint8_t kRetries = 6;
constexpr std::uint32_t kChelsio = 0x1425;  // Only cxgb4 reports them as InfiniBand does.

std::uint8_t Byte(std::uint32_t value) {
  return static_cast<std::uint8_t>(std::min(value, kMaxReadLimit));
}

rdma_conn_param ConnParam(const ReadLimits& limits, std::uint32_t qp_number, const Data& data) {
  rdma_conn_param param{};
  param.private_data = data.empty() ? nullptr : data.data();
  param.private_data_len = static_cast<std::uint8_t>(data.size());
  param.responder_resources = Byte(limits.inbound);
  param.initiator_depth = Byte(limits.outbound);
  param.flow_control = 1;
  param.retry_count = kRetries;
  param.rnr_retry_count = kRnrRetries;
  param.qp_num = qp_number;
  return param;
}

}  // namespace

Connection::Connection(ConnectionHost& host, CmId id, std::string adapter)
    : host_(host), id_(id), adapter_(std::move(adapter)) {}

Connection::~Connection() {
  ReleaseWire();
}

bool Connection::Watch() {
  const Account account = active_ ? Account{params_.owner_uid} : Account::kPeers;
  return host_.loop().Add(
      wire_->fd(), EPOLLIN,
      [weak = weak_from_this()](std::uint32_t) {
        if (auto self = weak.lock()) self->OnReadable();
      },
      account);
}

void Connection::ReleaseWire() {
  if (!wire_) return;
  channel_.reset();  // Never the last one of its channel: that close may have to wait for the device.
  host_.loop().Remove(wire_->fd());
  host_.DestroyLater(std::move(wire_), active_ ? params_.local : Address());
}

bool Connection::handshaking() const {
  return state_ != State::kIncoming && state_ != State::kReplied && state_ != State::kEstablished &&
         state_ != State::kClosing && state_ != State::kPeerGone;
}

Status Connection::CheckQueuePair() const {
  const DeviceTable::Port* const port = host_.devices().Find(adapter_);
  if (port == nullptr) return {StatusCode::kDeviceRemoved, "The RDMA device was removed."};
  return host_.nldev().CheckQpOwner(port->device_index, port->number, device_qp_, owner_pid_);
}

void Connection::Fail(const Status& status, const Bytes& private_data) {
  if (ended_) return;
  const bool unanswered =
      active_ && (state_ == State::kResolving || state_ == State::kRouting || state_ == State::kConnecting);
  ended_ = true;
  if (!unanswered) {
    host_.sink().OnLost(id_, status, private_data);
  } else if (status == StatusCode::kConnectionRefused) {
    host_.sink().OnRejected(id_, status, private_data);
  } else {
    host_.sink().OnFailed(id_, status);
  }
  ReleaseWire();
  host_.Forget(id_);
}

void Connection::EndSilently() {
  if (ended_) return;
  ended_ = true;
  ReleaseWire();
  host_.Forget(id_);
}

// ---- active ---------------------------------------------------------------------------------------------

void Connection::StartActive(const ConnectParams& params) {
  active_ = true;
  params_ = params;
  device_qp_ = params.device_qp;
  owner_pid_ = params.owner_pid;
  if (Status status = CheckQueuePair(); !status.ok()) return Fail(status);
  Begin();
}

void Connection::Begin() {
  ReleaseWire();
  state_ = State::kResolving;
  auto wire = WireId::Create();
  if (!wire.ok()) return Fail(wire.status());
  wire_ = std::move(wire).value();
  if (!Watch()) {
    host_.DestroyLater(std::move(wire_), Address());
    return Fail({StatusCode::kInsufficientResources, "The broker watches no more descriptors."});
  }
  if (const int error = wire_->Bind(params_.local, true); error != 0) return Fail(FromBind(error));
  sockaddr_storage remote{};
  params_.remote.ToSockaddr(&remote);
  if (rdma_resolve_addr(wire_->id(), nullptr, reinterpret_cast<sockaddr*>(&remote), kResolveTimeoutMs) != 0) {
    Fail(FromAddress(errno));
  }
}

void Connection::SendRequest() {
  state_ = State::kConnecting;
  const Data data = PackPrivateData(iwarp_, Field::kRequest, params_.private_data);
  if (!iwarp_) {
    rdma_conn_param param = ConnParam(params_.offer, device_qp_, data);
    const int error = rdma_connect(wire_->id(), &param) == 0 ? 0 : errno;
    if (error != 0) Fail(FromConnect(error));
    return;
  }
  // The kernel may make the TCP connection within this call, however long that takes.
  host_.pool().Submit([&loop = host_.loop(), weak = weak_from_this(), wire = wire_, data, qp = device_qp_,
                       offer = params_.offer] {
    rdma_conn_param param = ConnParam(offer, qp, data);
    const int error = rdma_connect(wire->id(), &param) == 0 ? 0 : errno;
    loop.Post([weak, error] {
      if (auto self = weak.lock()) self->OnRequestSent(error);
    });
  });
}

void Connection::OnRequestSent(int error) {
  if (error != 0 && state_ == State::kConnecting) Fail(FromConnect(error));
}

void Connection::OnReplied(const CmEvent& event) {
  ReadLimits peer{event.initiator_depth, event.responder_resources};
  if (own_values_) std::swap(peer.inbound, peer.outbound);
  // Computed as the core does: a peer that asks for more than was offered gets it if the adapter supports it.
  limits_ = {peer.outbound, std::min(params_.offer.outbound, peer.inbound)};
  state_ = State::kReplied;
  host_.sink().OnReply(id_, true, peer, ReceivedData(event));
}

void Connection::Confirm() {
  if (state_ != State::kReplied || !active_) return;
  if (!iwarp_) return Prepare();
  Establish();
}

// The descriptor is made here and not in TakeHandOff(): until now a failure can still be the answer to the
// operation.
bool Connection::Establish() {
  channel_.reset(::fcntl(wire_->fd(), F_DUPFD_CLOEXEC, 0));
  if (!channel_) {
    const int error = errno;
    rdma_disconnect(wire_->id());
    Fail({StatusCode::kInsufficientResources, "The broker has no more descriptors.", Detail::kTransport,
          error});
    return false;
  }
  state_ = State::kEstablished;
  host_.sink().OnEstablished(id_);
  return true;
}

// ---- passive --------------------------------------------------------------------------------------------

bool Connection::StartInbound(std::shared_ptr<WireId> wire, const CmEvent& request) {
  wire_ = std::move(wire);
  state_ = State::kIncoming;
  iwarp_ = wire_->iwarp();
  if (!Watch()) {
    rdma_reject(wire_->id(), nullptr, 0);
    host_.DestroyLater(std::move(wire_), Address());
    return false;
  }
  InboundRequest inbound;
  inbound.id = id_;
  inbound.adapter = adapter_;
  inbound.local = Address::FromSockaddr(rdma_get_local_addr(wire_->id()), sizeof(sockaddr_in6));
  inbound.remote = Address::FromSockaddr(rdma_get_peer_addr(wire_->id()), sizeof(sockaddr_in6));
  // The event names the limits as the listener sees them.
  inbound.peer_offer = {request.initiator_depth, request.responder_resources};
  inbound.private_data = ReceivedData(request);
  host_.sink().OnRequest(inbound);
  return true;
}

void Connection::Accept(const AcceptParams& params) {
  if (state_ != State::kIncoming) return;
  limits_ = params.limits;
  accept_data_ = params.private_data;
  device_qp_ = params.device_qp;
  owner_pid_ = params.owner_pid;
  if (Status status = CheckQueuePair(); !status.ok()) {
    rdma_reject(wire_->id(), nullptr, 0);
    return Fail(status);
  }
  if (!iwarp_) return Prepare();
  state_ = State::kPreparing;
  Prepared({});
}

// ---- both -----------------------------------------------------------------------------------------------

void Connection::Prepare() {
  QpTransitions transitions;
  constexpr ibv_qp_state kStates[] = {IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS};
  for (std::size_t i = 0; i < transitions.size(); ++i) {
    transitions[i].attr.qp_state = kStates[i];
    if (rdma_init_qp_attr(wire_->id(), &transitions[i].attr, &transitions[i].mask) != 0) {
      const int error = errno;
      rdma_reject(wire_->id(), nullptr, 0);
      return Fail(FromAccept(error));
    }
  }
  // rdma_cm knows neither the final limits nor how long this broker waits for a receive.
  transitions[1].attr.max_dest_rd_atomic = Byte(limits_.inbound);
  transitions[1].attr.min_rnr_timer = kMinRnrTimer;
  transitions[2].attr.max_rd_atomic = Byte(limits_.outbound);
  transitions[2].attr.rnr_retry = kRnrRetries;
  state_ = State::kPreparing;
  host_.sink().OnPrepare(id_, EncodeTransitions(transitions));
}

void Connection::Prepared(const Status& status) {
  if (state_ != State::kPreparing) return;
  if (!status.ok()) {
    rdma_reject(wire_->id(), nullptr, 0);
    return Fail(status);
  }
  if (active_) {
    if (rdma_establish(wire_->id()) != 0) return Fail(FromAccept(errno));
    Establish();
    return;
  }
  const Data data = PackPrivateData(iwarp_, Field::kReply, accept_data_);
  rdma_conn_param param = ConnParam(limits_, device_qp_, data);
  state_ = State::kAccepting;
  if (rdma_accept(wire_->id(), &param) != 0) Fail(FromAccept(errno));
}

void Connection::Reject(Detail detail, const Bytes& private_data) {
  if (!wire_ || (state_ != State::kIncoming && state_ != State::kReplied)) return EndSilently();
  const Data said = detail == Detail::kPeerRejected ? private_data : RefusalBy(detail);
  if (active_ && iwarp_) {
    rdma_disconnect(
        wire_->id());  // The connection is established already; the wire has no refusal for this state.
  } else {
    const Data data = PackPrivateData(iwarp_, Field::kRefusal, said);
    rdma_reject(wire_->id(), data.data(), static_cast<std::uint8_t>(data.size()));
  }
  EndSilently();
}

void Connection::Disconnect() {
  if (state_ == State::kPeerGone || !wire_) {
    host_.sink().OnDisconnected(id_, {});
    return;
  }
  if (state_ != State::kEstablished) return;
  state_ = State::kClosing;
  // Fails only when the connection is gone already.
  if (rdma_disconnect(wire_->id()) != 0) host_.sink().OnDisconnected(id_, {});
}

void Connection::Abort() {
  if (wire_ && state_ == State::kEstablished) rdma_disconnect(wire_->id());
  EndSilently();
}

Result<HandOff> Connection::TakeHandOff() {
  HandOff hand_off;
  hand_off.transport = kTransportName;
  hand_off.record.transport = kTransport;
  if (active_) hand_off.record.flags |= kHandOffActive;
  if (channel_) hand_off.fds.push_back(std::move(channel_));
  hand_off.record.fd_count = static_cast<std::uint32_t>(hand_off.fds.size());
  return hand_off;
}

Bytes Connection::ReceivedData(const CmEvent& event) const {
  return UnpackPrivateData(iwarp_, event.private_data);
}

void Connection::OnReadable() {
  // Reads one event. The loop calls again while there are more, which is rare.
  if (const std::optional<CmEvent> event = wire_->NextEvent()) OnEvent(*event);
}

void Connection::OnRemoved() {
  const Status removed{StatusCode::kDeviceRemoved, "The RDMA device was removed."};
  switch (state_) {
    case State::kEstablished:
      host_.sink().OnPeerClosed(id_, DisconnectReason::kAdapterDisabled);
      break;
    case State::kClosing:
      host_.sink().OnDisconnected(id_, {});
      break;
    case State::kPeerGone:
      break;
    default:
      return Fail(removed);
  }
  // The kernel delays the removal until every id is destroyed.
  state_ = State::kPeerGone;
  ReleaseWire();
}

void Connection::OnEvent(const CmEvent& event) {
  if (event.type == RDMA_CM_EVENT_DEVICE_REMOVAL) return OnRemoved();
  switch (state_) {
    case State::kResolving: {
      if (event.type != RDMA_CM_EVENT_ADDR_RESOLVED) {
        if (event.type == RDMA_CM_EVENT_ADDR_CHANGE) return;
        return Fail(FromConnectEvent(event.type, event.status));
      }
      const ibv_context* const context = wire_->id()->verbs;
      const DeviceTable::Port* const port =
          context == nullptr
              ? nullptr
              : host_.devices().FindPort(ibv_get_device_name(context->device), wire_->id()->port_num);
      if (port == nullptr || port->description.info.name != adapter_) return Fail(FromAddress(ENODEV));
      iwarp_ = port->iwarp;
      // In the event of the reply most iWARP drivers report the limits of this side, not those of the peer.
      own_values_ = iwarp_ && port->description.info.vendor_id != kChelsio;
      state_ = State::kRouting;
      if (rdma_resolve_route(wire_->id(), kResolveTimeoutMs) != 0) Fail(FromRoute(errno));
      return;
    }
    case State::kRouting:
      if (event.type == RDMA_CM_EVENT_ROUTE_RESOLVED) return SendRequest();
      if (event.type == RDMA_CM_EVENT_ADDR_CHANGE) return;
      if (event.type == RDMA_CM_EVENT_ROUTE_ERROR && event.status == -ETIMEDOUT &&
          ++routes_ < kRouteQueries) {
        return Begin();
      }
      return Fail(FromConnectEvent(event.type, event.status));
    case State::kConnecting: {
      if (event.type == RDMA_CM_EVENT_CONNECT_RESPONSE || event.type == RDMA_CM_EVENT_ESTABLISHED) {
        return OnReplied(event);
      }
      if (event.type == RDMA_CM_EVENT_ADDR_CHANGE) return;
      if (WantsFreshIdentity(event.type, event.status) && ++identities_ < kIdentities) return Begin();
      Status status = FromConnectEvent(event.type, event.status);
      Bytes data;
      if (status.detail() == Detail::kPeerRejected) {
        data = ReceivedData(event);
        if (const Detail detail = RefusalDetail(data); detail != Detail::kNone) {
          status =
              Status(StatusCode::kConnectionRefused, "The peer's broker refused.", detail, status.native());
          data.clear();
        }
      }
      return Fail(status, data);
    }
    case State::kReplied:
    case State::kIncoming:
    case State::kPreparing:
    case State::kAccepting: {
      if (event.type == RDMA_CM_EVENT_ADDR_CHANGE) return;
      if (event.type == RDMA_CM_EVENT_ESTABLISHED) {
        if (state_ != State::kAccepting) return;
        Establish();
        return;
      }
      if (event.type == RDMA_CM_EVENT_DISCONNECTED && state_ == State::kAccepting && !iwarp_) {
        // Only a peer with an established connection disconnects, so its confirmation was lost.
        if (!Establish()) return;
        rdma_disconnect(wire_->id());
        state_ = State::kPeerGone;
        return host_.sink().OnPeerClosed(id_, DisconnectReason::kPeerDisconnected);
      }
      Bytes data;
      if (event.type == RDMA_CM_EVENT_REJECTED) data = ReceivedData(event);
      return Fail(FromAcceptEvent(event.type, event.status), data);
    }
    case State::kEstablished:
      if (event.type == RDMA_CM_EVENT_DISCONNECTED) {
        rdma_disconnect(wire_->id());  // The answer that the peer's Disconnect waits for.
        state_ = State::kPeerGone;
        return host_.sink().OnPeerClosed(id_, DisconnectReason::kPeerDisconnected);
      }
      if (event.type == RDMA_CM_EVENT_UNREACHABLE || event.type == RDMA_CM_EVENT_CONNECT_ERROR) {
        state_ = State::kPeerGone;
        return host_.sink().OnPeerClosed(id_, DisconnectReason::kTransportRetryExceeded);
      }
      return;
    case State::kClosing:
      if (event.type != RDMA_CM_EVENT_DISCONNECTED) return;
      state_ = State::kPeerGone;
      return host_.sink().OnDisconnected(id_, FromDisconnected(event.status));
    case State::kPeerGone:
      return;
  }
}

}  // namespace nd::provider::verbs
