// SPDX-License-Identifier: Apache-2.0
// Cancel, Close and the reclaim of the objects of an ended client; successors always before antecedents.
#include <utility>

#include "daemon/core/answers.h"
#include "daemon/core/check.h"
#include "daemon/core/impl.h"

namespace nd::core {
namespace {

Status Canceled() {
  return {StatusCode::kCanceled, "The operation was cancelled."};
}

}  // namespace

void Broker::Impl::CancelAll(Connector& c, const Status& status) {
  if (c.state == ConnectorState::kWaiting) {
    Listener* const l = Find<Listener>(c.waits_at);
    ND_CORE_CHECK(l != nullptr);
    const bool removed = l->queue.RemoveGet(c.op.sequence);
    ND_CORE_CHECK(removed);
    c.waits_at = {};
    c.state = ConnectorState::kUnbound;
  }
  // A connector has either a pending operation or pending notifications, never both.
  Finish(c.session, c.op, status);
  FinishNotifies(c, status);
}

void Broker::Impl::Cancel(Connector& c) {
  switch (c.state) {
    case ConnectorState::kUnbound:
      CancelAll(c, Canceled());
      if (c.claim.reserving) {
        ports_.Drop(&c.claim);
        c.local = {};
      }
      return;
    case ConnectorState::kConnecting:
      ++counters_.connect_failure;
      [[fallthrough]];
    case ConnectorState::kCompleting:
    case ConnectorState::kAccepting:
      CancelAll(c, Canceled());
      Kill(c, {ConnectionRecord::Outcome::kFailed, Canceled()});
      return;
    case ConnectorState::kWaiting:
    case ConnectorState::kConnected:
      CancelAll(c, Canceled());
      return;
    case ConnectorState::kDisconnecting:
      if (StateOf(c).description.client_disconnects) {
        Emit(SendTransportCommand{{c.handle, TransportCommand::What::kDrop, DisconnectReason::kUnknown, 0},
                                  c.session});
      }
      FinishGoodbye(c, Canceled());
      return;
    default:
      return;
  }
}

void Broker::Impl::Cancel(Listener& l) {
  if (l.op) {
    Finish(l.session, l.op, Canceled());
    ports_.Drop(&l.claim);
    l.local = {};
  }
  CancelGets(l, Canceled());
}

void Broker::Impl::Do(Session& s, Pending p, const CancelOp& op) {
  Object* const object = FindAny(op.handle);
  if (object == nullptr || object->session != s.id || object->closing) {
    Finish(s.id, p, BadHandle());
    return;
  }
  if (object->kind == ObjectKind::kConnector) Cancel(static_cast<Connector&>(*object));
  if (object->kind == ObjectKind::kListener) Cancel(static_cast<Listener&>(*object));
  Finish(s.id, p, {});
}

void Broker::Impl::Do(Session& s, Pending p, const CloseOp& op) {
  Object* const object = FindAny(op.handle);
  if (object == nullptr || object->session != s.id || object->closing) {
    Finish(s.id, p, BadHandle());
    return;
  }
  object->close_op = p;
  switch (object->kind) {
    case ObjectKind::kAdapter:
      Close(static_cast<OpenedAdapter&>(*object));
      return;
    case ObjectKind::kQueuePair:
      Close(static_cast<QueuePair&>(*object), op.ndk);
      return;
    case ObjectKind::kConnector:
      Close(static_cast<Connector&>(*object));
      return;
    case ObjectKind::kListener:
      Close(static_cast<Listener&>(*object));
      return;
    case ObjectKind::kSharedEndpoint:
      Close(static_cast<SharedEndpoint&>(*object));
      return;
  }
}

void Broker::Impl::Close(OpenedAdapter& a) {
  a.closing = true;
  MaybeFinishClose(a.handle);
}

void Broker::Impl::Close(Connector& c) {
  c.closing = true;
  if (c.state == ConnectorState::kConnecting) ++counters_.connect_failure;
  CancelAll(c, Canceled());
  switch (c.state) {
    case ConnectorState::kConnected:
      StartGoodbye(c);
      return;  // Continues in FinishGoodbye.
    case ConnectorState::kDisconnecting:
      return;  // Continues in FinishGoodbye, too.
    case ConnectorState::kIncoming:
      Emit(CmReject{*c.cm, Detail::kPeerRejected, {}});
      ForgetCm(c, false);
      break;
    default:
      break;
  }
  DestroyConnector(c, {ConnectionRecord::Outcome::kFailed,
                       {StatusCode::kCanceled, "The application closed the connector."}});
}

void Broker::Impl::DestroyConnector(Connector& c, Ending ending) {
  // This completion precedes those of antecedents that waited for it.
  Finish(c.session, c.close_op, {});
  Kill(c, std::move(ending));
  ReleaseTuple(c);
  ports_.Drop(&c.claim);
  DetachQueuePair(c);
  const Handle through = std::exchange(c.through, {});
  Destroy(c);
  if (through) DropSuccessor(through);
}

void Broker::Impl::Close(Listener& l) {
  l.closing = true;
  Finish(l.session, l.op, Canceled());
  StopListening(l, Detail::kListenerClosed, Canceled());
  ports_.SetClosing(l.claim, l.handle);
  MaybeFinishClose(l.handle);
}

void Broker::Impl::Close(SharedEndpoint& e) {
  e.closing = true;
  Finish(e.session, e.op, Canceled());
  ports_.SetClosing(e.claim, e.handle);
  MaybeFinishClose(e.handle);
}

void Broker::Impl::Close(QueuePair& q, bool ndk) {
  const Status closed(StatusCode::kCanceled, "The queue pair was closed.");
  q.closing = true;
  q.ndk_close = ndk;
  const Handle handle = q.handle;
  if (!q.connector) {
    MaybeFinishClose(handle);
    return;
  }
  if (ndk) return;  // The close continues when the connector releases the queue pair.
  Connector& c = ConnectorAt(q.connector);
  switch (c.state) {
    case ConnectorState::kConnecting:
      ++counters_.connect_failure;
      [[fallthrough]];
    case ConnectorState::kReplied:
    case ConnectorState::kCompleting:
    case ConnectorState::kAccepting:
      CancelAll(c, closed);
      // Detaches the queue pair, which finishes this Close.
      Kill(c, {ConnectionRecord::Outcome::kFailed, closed});
      return;
    case ConnectorState::kConnected:
      StartGoodbye(c);
      return;  // Continues in FinishGoodbye.
    case ConnectorState::kDisconnecting:
      CancelAll(c, closed);
      return;  // Continues in FinishGoodbye, too.
    case ConnectorState::kPeerClosed:
      Kill(c, {ConnectionRecord::Outcome::kClosed, {}});
      [[fallthrough]];
    default:
      DetachQueuePair(c);
      return;
  }
}

void Broker::Impl::Reclaim(Object& object) {
  switch (object.kind) {
    case ObjectKind::kConnector: {
      Connector& c = static_cast<Connector&>(object);
      Ending ending = EndingOf(SessionOf(c.session), c);
      if (c.state == ConnectorState::kConnecting) ++counters_.connect_failure;
      CancelAll(c, Canceled());
      if (c.state == ConnectorState::kIncoming && c.cm) {
        Emit(CmReject{*c.cm, Detail::kPeerProcessDied, {}});
        ForgetCm(c, false);
      }
      DestroyConnector(c, std::move(ending));
      return;
    }
    case ObjectKind::kListener:
      Close(static_cast<Listener&>(object));
      return;
    case ObjectKind::kSharedEndpoint:
      Close(static_cast<SharedEndpoint&>(object));
      return;
    case ObjectKind::kQueuePair:  // The connector of the request was reclaimed before.
    case ObjectKind::kAdapter:
      object.closing = true;
      MaybeFinishClose(object.handle);
      return;
  }
}

}  // namespace nd::core
