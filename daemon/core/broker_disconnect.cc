// SPDX-License-Identifier: Apache-2.0
// The end of a connection: disconnects in both directions and their notifications.
#include <utility>

#include "daemon/core/answers.h"
#include "daemon/core/check.h"
#include "daemon/core/impl.h"

namespace nd::core {
namespace {

// Added to the disconnect timeout for a client that does not answer.
constexpr Duration kGoodbyeGrace = std::chrono::seconds(2);

DisconnectReason Known(DisconnectReason reason) {
  return reason <= DisconnectReason::kEstablishmentFailed ? reason : DisconnectReason::kUnknown;
}

// Returns the reason of the transport, unless this broker knows a better one: a disconnect by order of the
// administrator.
DisconnectReason KnownReason(const Connector& c, DisconnectReason reason) {
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

std::uint32_t Broker::Impl::DisconnectTimeoutMs() const {
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(settings_.disconnect_timeout);
  return static_cast<std::uint32_t>(ms.count());
}

void Broker::Impl::StartGoodbye(Connector& c, bool begun) {
  ND_CORE_CHECK(c.state == ConnectorState::kConnected);
  --counters_.active_connection;
  c.state = ConnectorState::kDisconnecting;
  const bool quiet = settings_.notify_success_on_local_disconnect;
  FinishNotifies(
      c, quiet ? Status::Ok() : Status(StatusCode::kConnectionDisconnected, "This side disconnected."));
  Arm(c, TimerKind::kGoodbye, now_ + settings_.disconnect_timeout + kGoodbyeGrace);
  Note(Notice::Level::kInfo, "connection.disconnected", Show(c.handle), Ends(c, " and ", ": by this side."));
  if (!StateOf(c).description.client_disconnects) {
    Emit(CmDisconnect{*c.cm});
  } else if (!begun) {
    // Earlier libraries do not say that they have begun it, and ignore this.
    Emit(SendTransportCommand{
        {c.handle, TransportCommand::What::kDisconnect, DisconnectReason::kUnknown, DisconnectTimeoutMs()},
        c.session});
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
  reason = KnownReason(c, reason);
  if (reason != DisconnectReason::kPeerDisconnected) ++counters_.connection_error;
  c.state = ConnectorState::kPeerClosed;
  c.reason = reason;
  const Ending ending = EndingOf(c, reason, seen);
  const std::string why = ending.why.message().empty() ? std::string(Name(reason)) : ending.why.message();
  RecordEnd(c, ending);
  FinishNotifies(c, {});
  if (std::exchange(c.disconnect_event, false)) Emit(SendDisconnectEvent{{c.handle, reason}, c.session});
  Note(Notice::Level::kInfo, "connection.disconnected", Show(c.handle),
       Ends(c, " and ", ": " + why + (why.ends_with('.') ? "" : ".")));
}

void Broker::Impl::Do(Session& s, Pending p, const NotifyDisconnectOp& op) {
  Connector* const c = UseConnector(s, p, op.connector);
  if (c == nullptr) return;
  const StatusCode verdict = VerdictOf(ConnectorOp::kNotifyDisconnect, *c);
  if (verdict == StatusCode::kSuccess && c->state == ConnectorState::kConnected) {
    c->notifies.push_back(p);
    return;
  }
  Finish(s.id, p, WrongState(verdict, c->state));
}

void Broker::Impl::Do(Session& s, Pending p, const DisconnectOp& op) {
  Connector* const c = UseConnector(s, p, op.connector);
  if (c == nullptr) return;
  const StatusCode verdict = VerdictOf(ConnectorOp::kDisconnect, *c);
  if (verdict != StatusCode::kSuccess) {
    Finish(s.id, p, WrongState(verdict, c->state));
    return;
  }
  if (c->state == ConnectorState::kPeerClosed) {
    Kill(*c, {ConnectionRecord::Outcome::kClosed, {}});
    Finish(s.id, p, {});
    return;
  }
  c->op = p;
  StartGoodbye(*c, op.begun);
}

void Broker::Impl::Do(Session& s, Pending p, const TransportReportOp& op) {
  // Reports are taken for a closing connector too, because its Close waits for the disconnect.
  Connector* const c = Find<Connector>(op.connector);
  if (c == nullptr || c->session != s.id || c->reattaching) {
    Finish(s.id, p, BadHandle("connector"));
    return;
  }
  Finish(s.id, p, {});
  if (op.what == TransportReportOp::What::kPrepared) {
    // In any other state the answer is late or unsolicited.
    if (c->cm && std::exchange(c->preparing, false)) Emit(CmPrepared{*c->cm, op.status});
    return;
  }
  // When the daemon half disconnects, only the loss of the peer is news, because the queue pair notices it
  // first.
  if (!StateOf(*c).description.client_disconnects && op.what != TransportReportOp::What::kPeerClosed) return;
  switch (c->state) {
    case ConnectorState::kConnected:
      if (op.what == TransportReportOp::What::kPeerClosed) {
        PeerClosed(*c, Known(op.reason), op.status);
        // The queue pair failed in its device, so only the broker can tell the peer.
        if (!StateOf(*c).description.client_disconnects) Emit(CmDisconnect{*c->cm});
      } else {
        StartGoodbye(*c);  // The application disconnected while the broker was away.
        FinishGoodbye(*c, {});
      }
      return;
    case ConnectorState::kDisconnecting:
      // The disconnect of the peer crossed ours; the answer to ours is still pending.
      if (op.what == TransportReportOp::What::kPeerClosed) return;
      FinishGoodbye(*c, op.status == StatusCode::kIoTimeout ? op.status : Status::Ok());
      return;
    default:
      return;
  }
}

}  // namespace nd::core
