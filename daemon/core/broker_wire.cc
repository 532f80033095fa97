// SPDX-License-Identifier: Apache-2.0
// Events of the connection manager after the answer to an attempt: established, lost, ended.
#include <utility>

#include "daemon/core/check.h"
#include "daemon/core/impl.h"

namespace nd::core {

// Changes only the state; the caller finishes the operation.
void Broker::Impl::BecomeConnected(Connector& c) {
  Disarm(c.establish_timer);
  c.state = ConnectorState::kConnected;
  c.was_connected = true;
  Find<QueuePair>(c.queue_pair)->spent = true;
  ++counters_.active_connection;
  Note(Notice::Level::kInfo, "connection.connected", Show(c.handle),
       Ends(c, c.passive ? " from " : " to ", "."));
}

Connector* Broker::Impl::FindByCm(CmId id) {
  const auto found = cm_.find(static_cast<std::uint64_t>(id));
  if (found == cm_.end() || !found->second.connector) return nullptr;
  Connector& c = ConnectorAt(found->second.connector);
  return SessionOf(c.session).closed ? nullptr : &c;
}

bool Broker::Impl::ForgetEndedCm(Connector& c) {
  ForgetCm(c, false);
  if (!SessionOf(c.session).closed) return true;
  LeaveAttempts(c);
  return false;
}

void Broker::Impl::On(const CmPrepare& event) {
  Connector* const live = FindByCm(event.id);
  if (live == nullptr) return;
  Connector& c = *live;
  if (c.state != ConnectorState::kCompleting && c.state != ConnectorState::kAccepting) return;
  c.preparing = true;
  Emit(SendTransportCommand{
      {c.handle, TransportCommand::What::kPrepare, DisconnectReason::kUnknown, 0, event.attributes},
      c.session});
}

void Broker::Impl::On(const CmEstablished& event) {
  Connector* const live = FindByCm(event.id);
  if (live == nullptr) return;
  Connector& c = *live;
  if (c.state != ConnectorState::kCompleting && c.state != ConnectorState::kAccepting) return;
  if (c.passive) {
    // Head to head: at most one of two connections between the same addresses may be established.
    const TupleHolder sibling = tuples_.Sibling(TupleOf(c), Role::kPassive);
    const Connector* const other = sibling.connector ? Find<Connector>(sibling.connector) : nullptr;
    if (other != nullptr &&
        (other->state == ConnectorState::kConnected || other->state == ConnectorState::kCompleting)) {
      const Status taken(StatusCode::kAddressAlreadyExists,
                         "Our own connection between the same addresses is up.");
      Finish(c.session, c.op, taken);
      Kill(c, {ConnectionRecord::Outcome::kFailed, taken});
      return;
    }
    ++counters_.accept;
    Listener* const l = Find<Listener>(c.through);
    ND_CORE_CHECK(l != nullptr);
    ++l->accepted;
  } else {
    ++counters_.connect;
  }
  BecomeConnected(c);
  Reply reply;
  reply.address = c.local;
  reply.peer = c.remote;
  reply.limits = c.limits;
  reply.hand_off = next_hand_off_++;
  if (StateOf(c).description.client_disconnects) {
    if (prove_) reply.proof = prove_(FactsOf(c));
    reply.disconnect_timeout_ms = DisconnectTimeoutMs();
  }
  // A device does not notice the disconnect; the library flushes the queue pair.
  c.disconnect_event |= settings_.flush_on_peer_disconnect;
  Emit(HandOffTo{c.session, *c.cm, c.handle, reply.hand_off, c.limits, settings_.flush_on_peer_disconnect});
  RecordEstablished(c);
  Finish(c.session, c.op, {}, std::move(reply));
}

void Broker::Impl::On(const CmLost& event) {
  const auto found = cm_.find(static_cast<std::uint64_t>(event.id));
  if (found == cm_.end()) return;
  const CmEntry entry = found->second;
  if (!entry.connector) {
    // The request was withdrawn while it waited: its place in the backlog is free again, and no application
    // is notified.
    Listener* const l = Find<Listener>(entry.listener);
    ND_CORE_CHECK(l != nullptr);
    const std::optional<provider::InboundRequest> request = l->queue.TakeRequest(entry.key);
    ND_CORE_CHECK(request.has_value());
    tuples_.Erase({l->adapter_no, request->local, request->remote}, Role::kPassive,
                  static_cast<std::uint64_t>(event.id));
    cm_.erase(static_cast<std::uint64_t>(event.id));
    return;
  }
  Connector& c = ConnectorAt(entry.connector);
  if (ForgetEndedCm(c)) Lost(c, event.status, event.private_data);
}

void Broker::Impl::Lost(Connector& c, const Status& status, const Bytes& private_data) {
  const bool timeout = status == StatusCode::kIoTimeout;
  Status why = timeout ? status
                       : Status(StatusCode::kConnectionAborted,
                                status.message().empty() ? "The peer withdrew." : status.message(),
                                status.ok() ? Detail::kPeerWithdrew : status.detail(), status.native());
  // A lack of descriptors on this host is not a withdrawal by the peer.
  const bool exhausted = status == StatusCode::kInsufficientResources;
  const auto keep_data = [&] {
    if (private_data.empty()) return;
    c.data = private_data;
    c.refusal_data = true;
  };
  switch (c.state) {
    case ConnectorState::kConnecting:
      FailConnect(c, timeout
                         ? std::move(why)
                         : Status(StatusCode::kConnectionRefused, why.message(), why.detail(), why.native()));
      return;
    case ConnectorState::kIncoming:
      Kill(c, {ConnectionRecord::Outcome::kFailed, why});
      c.withdrawn_incoming = true;
      c.ended =
          timeout ? Status(StatusCode::kConnectionAborted, why.message(), why.detail(), why.native()) : why;
      keep_data();
      return;
    case ConnectorState::kReplied:
      ++counters_.connect_failure;
      Kill(c, {ConnectionRecord::Outcome::kFailed, why});
      (timeout ? c.expired_replied : c.withdrawn_replied) = true;
      c.ended = std::move(why);
      keep_data();
      return;
    case ConnectorState::kAccepting:
      if (exhausted) why = status;
      if (!timeout && settings_.accept_refused_on_reject &&
          (why.detail() == Detail::kPeerRejected || why.detail() == Detail::kPeerWithdrew)) {
        why = Status(StatusCode::kConnectionRefused, why.message(), why.detail(), why.native());
      }
      keep_data();
      Finish(c.session, c.op, why);
      Kill(c, {ConnectionRecord::Outcome::kFailed, std::move(why)});
      return;
    case ConnectorState::kCompleting:
      if (exhausted) why = status;
      ++counters_.connect_failure;
      Finish(c.session, c.op, why);
      Kill(c, {ConnectionRecord::Outcome::kFailed, std::move(why)});
      return;
    case ConnectorState::kConnected:
      PeerClosed(c, timeout ? DisconnectReason::kTransportRetryExceeded : DisconnectReason::kUnknown);
      return;
    case ConnectorState::kDisconnecting:
      FinishGoodbye(c, {});
      return;
    default:
      return;
  }
}

void Broker::Impl::On(const CmPeerClosed& event) {
  const auto found = cm_.find(static_cast<std::uint64_t>(event.id));
  if (found == cm_.end()) return;
  if (!found->second.connector) {
    On(CmLost{event.id, {StatusCode::kConnectionAborted, "The peer withdrew.", Detail::kPeerWithdrew}, {}});
    return;
  }
  Connector* const live = FindByCm(event.id);
  if (live == nullptr) return;
  Connector& c = *live;
  switch (c.state) {
    case ConnectorState::kAccepting:
    case ConnectorState::kCompleting:
      // The disconnect overtook the confirmation: the connection was established and has ended.
      ++(c.passive ? counters_.accept : counters_.connect);
      BecomeConnected(c);
      RecordEstablished(c);
      Finish(c.session, c.op, {});
      PeerClosed(c, event.reason);
      return;
    case ConnectorState::kConnected:
      PeerClosed(c, event.reason);
      return;
    case ConnectorState::kDisconnecting:
      FinishGoodbye(c, {});  // Crossing disconnects answer each other.
      return;
    case ConnectorState::kConnecting:
    case ConnectorState::kReplied:
    case ConnectorState::kIncoming:
      ForgetCm(c, true);
      Lost(c, {StatusCode::kConnectionAborted, "The peer withdrew.", Detail::kPeerWithdrew}, {});
      return;
    default:
      return;
  }
}

void Broker::Impl::On(const CmDisconnected& event) {
  Connector* const c = FindByCm(event.id);
  if (c == nullptr || c->state != ConnectorState::kDisconnecting) return;
  FinishGoodbye(*c, event.status == StatusCode::kIoTimeout ? event.status : Status::Ok());
}

}  // namespace nd::core
