// SPDX-License-Identifier: Apache-2.0
// The end of a connection: goodbyes in both directions and who is told.
#include <utility>

#include "daemon/core/check.h"
#include "daemon/core/impl.h"

namespace nd::core {
namespace {

// Over the disconnect timeout, for a client that never answers.
constexpr Duration kGoodbyeGrace = std::chrono::seconds(2);

Status BadHandle() {
  return {StatusCode::kInvalidHandle, "The handle names no open connector of this session."};
}

DisconnectReason Known(DisconnectReason reason) {
  return reason <= DisconnectReason::kEstablishmentFailed ? reason : DisconnectReason::kUnknown;
}

// What a transport said, unless this broker knows better. A goodbye is one, unless it was said by order.
DisconnectReason Truth(const Connector& c, DisconnectReason reason) {
  if (!c.other_end || reason == DisconnectReason::kLocalAdministrator) return reason;
  const DisconnectReason known = c.other_end->reason;
  const bool by_order =
      known == DisconnectReason::kLocalAdministrator || known == DisconnectReason::kAdapterDisabled;
  return reason == DisconnectReason::kPeerDisconnected && !by_order ? reason : known;
}

}  // namespace

void Broker::Impl::FinishNotifies(Connector& c, const Status& status) {
  std::vector<Pending> notifies = std::exchange(c.notifies, {});
  for (Pending& notify : notifies) Finish(c.session, notify, status);
}

void Broker::Impl::StartGoodbye(Connector& c) {
  ND_CORE_CHECK(c.state == ConnectorState::kConnected);
  --counters_.active_connection;
  c.state = ConnectorState::kDisconnecting;
  const bool quiet = settings_.notify_success_on_local_disconnect;
  FinishNotifies(
      c, quiet ? Status::Ok() : Status(StatusCode::kConnectionDisconnected, "This side disconnected."));
  Arm(c, TimerKind::kGoodbye, now_ + settings_.disconnect_timeout + kGoodbyeGrace);
  Note(Notice::Level::kInfo, "connection.disconnected", Show(c.handle),
       c.local.ToString() + " and " + c.remote.ToString() + ": by this side.");
  if (StateOf(c).description.client_disconnects) {
    const auto ms =
        std::chrono::duration_cast<std::chrono::milliseconds>(settings_.disconnect_timeout).count();
    Emit(SendTransportCommand{c.session, c.handle, SendTransportCommand::What::kDisconnect,
                              DisconnectReason::kUnknown, static_cast<std::uint32_t>(ms)});
  } else {
    Emit(CmDisconnect{*c.cm});
  }
}

void Broker::Impl::FinishGoodbye(Connector& c, Status status) {
  ND_CORE_CHECK(c.state == ConnectorState::kDisconnecting);
  Finish(c.session, c.op, status);
  Kill(c, {ConnectionRecord::Outcome::kClosed, std::move(status)});
  AfterDead(c);
}

void Broker::Impl::AfterDead(Connector& c) {
  ND_CORE_CHECK(c.state == ConnectorState::kDead);
  if (c.closing) {
    DestroyConnector(c, {ConnectionRecord::Outcome::kClosed, {}});
    return;
  }
  const QueuePair* const q = c.queue_pair ? Find<QueuePair>(c.queue_pair) : nullptr;
  if (q != nullptr && q->closing && !q->ndk_close) DetachQueuePair(c);
}

void Broker::Impl::PeerClosed(Connector& c, DisconnectReason reason, const Status& seen) {
  ND_CORE_CHECK(c.state == ConnectorState::kConnected);
  --counters_.active_connection;
  reason = Truth(c, reason);
  if (reason != DisconnectReason::kPeerDisconnected) ++counters_.connection_error;
  c.state = ConnectorState::kPeerClosed;
  c.reason = reason;
  const Ending ending = EndingOf(c, reason, seen);
  const std::string why = ending.why.message().empty() ? std::string(Name(reason)) : ending.why.message();
  RecordEnd(c, ending);
  FinishNotifies(c, {});
  if (std::exchange(c.disconnect_event, false)) Emit(SendDisconnectEvent{c.session, c.handle, reason});
  Note(Notice::Level::kInfo, "connection.disconnected", Show(c.handle),
       c.local.ToString() + " and " + c.remote.ToString() + ": " + why + (why.ends_with('.') ? "" : "."));
}

void Broker::Impl::Do(Session& s, Pending p, const NotifyDisconnectOp& op) {
  Connector* const c = FindOwn<Connector>(s, op.connector);
  if (c == nullptr || c->reattaching) {
    Finish(s.id, p, BadHandle());
    return;
  }
  if (c->removed) {
    Finish(s.id, p, {StatusCode::kDeviceRemoved, "The adapter was removed or disabled."});
    return;
  }
  const StatusCode verdict = VerdictOf(ConnectorOp::kNotifyDisconnect, *c);
  if (verdict == StatusCode::kSuccess && c->state == ConnectorState::kConnected) {
    c->notifies.push_back(p);
    return;
  }
  Finish(s.id, p, {verdict, "The connector is in state " + std::string(Name(c->state)) + "."});
}

void Broker::Impl::Do(Session& s, Pending p, const DisconnectOp& op) {
  Connector* const c = FindOwn<Connector>(s, op.connector);
  if (c == nullptr || c->reattaching) {
    Finish(s.id, p, BadHandle());
    return;
  }
  if (c->removed) {
    Finish(s.id, p, {StatusCode::kDeviceRemoved, "The adapter was removed or disabled."});
    return;
  }
  const StatusCode verdict = VerdictOf(ConnectorOp::kDisconnect, *c);
  if (verdict != StatusCode::kSuccess) {
    Finish(s.id, p, {verdict, "The connector is in state " + std::string(Name(c->state)) + "."});
    return;
  }
  if (c->state == ConnectorState::kPeerClosed) {
    Kill(*c, {ConnectionRecord::Outcome::kClosed, {}});
    Finish(s.id, p, {});
    return;
  }
  c->op = p;
  StartGoodbye(*c);
}

void Broker::Impl::Do(Session& s, Pending p, const TransportReportOp& op) {
  // Also about a connector that is being closed: its goodbye is what Close waits for.
  Connector* const c = Find<Connector>(op.connector);
  if (c == nullptr || c->session != s.id || c->reattaching) {
    Finish(s.id, p, BadHandle());
    return;
  }
  Finish(s.id, p, {});
  if (op.what == TransportReportOp::What::kPrepared) {
    // Anything else is late or was never asked for.
    if (c->cm && std::exchange(c->preparing, false)) Emit(CmPrepared{*c->cm, op.status});
    return;
  }
  // Where the wire speaks for itself, only a peer that fell silent is news: the queue pair knows it first.
  if (!StateOf(*c).description.client_disconnects && op.what != TransportReportOp::What::kPeerClosed) return;
  switch (c->state) {
    case ConnectorState::kConnected:
      if (op.what == TransportReportOp::What::kPeerClosed) {
        PeerClosed(*c, Known(op.reason), op.status);
        // A queue pair that failed in its device: only the broker can tell the peer.
        if (!StateOf(*c).description.client_disconnects) Emit(CmDisconnect{*c->cm});
      } else {
        StartGoodbye(*c);  // The application said it while the broker was away: it is over already.
        FinishGoodbye(*c, {});
      }
      return;
    case ConnectorState::kDisconnecting:
      // The peer's own goodbye crossed ours; ours is still being answered.
      if (op.what == TransportReportOp::What::kPeerClosed) return;
      FinishGoodbye(*c, op.status == StatusCode::kIoTimeout ? op.status : Status::Ok());
      return;
    default:
      return;
  }
}

}  // namespace nd::core
