// SPDX-License-Identifier: Apache-2.0
// The end of a connection: by the peer, by Disconnect, by Close. While the broker is away the queue pair
// alone ends the connection.
#include <utility>

#include "client-lib/core/connector.h"

namespace nd::client {

// On the keeper when it cannot be sent at once: the caller may be a thread that moves data.
void LocalConnector::Report(ReportWhat what, DisconnectReason reason, Status status) {
  using Sender = BrokerSession::Sender;
  if (SendReport(what, reason, status, Sender::kAtOnce)) return;
  adapter->session->Post([self = shared_from_this(), what, reason, status = std::move(status)] {
    self->SendReport(what, reason, status, Sender::kUnhurried);
  });
}

// While the broker is away, this side does the broker's part.
bool LocalConnector::SendReport(ReportWhat what, DisconnectReason reason, Status status,
                                BrokerSession::Sender sender) {
  const Life at = life();
  session::TransportReportOp op{at.handle, what, reason, std::move(status)};
  const auto locally = [self = shared_from_this(), what, reason] {
    if (what == ReportWhat::kPeerClosed) self->FireCallback(reason);
  };
  Status sent = adapter->session->Submit(
      std::move(op), at.epoch,
      [locally](const Reply& reply) {
        if (IsUnreachable(reply.status)) locally();
      },
      sender);
  if (!sent.ok() && sender != BrokerSession::Sender::kAtOnce) locally();
  return sent.ok();
}

void LocalConnector::OnPeerClosed(DisconnectReason reason, Status cause) {
  {
    std::lock_guard lock(mutex_);
    if (phase_ != Phase::kEstablished) return;
    phase_ = Phase::kPeerClosed;
    reason_ = reason;
    cause_ = std::move(cause);
    peer_close_unreported_ = true;
  }
  CompleteLocalNotifies({});
  {
    std::unique_lock order(report_order_, std::try_to_lock);
    if (order && TellPeerClosedInOrder(BrokerSession::Sender::kAtOnce)) return;
  }
  adapter->session->Post([self = shared_from_this()] { self->TellPeerClosed(); });
}

void LocalConnector::TellPeerClosed() {
  std::lock_guard order(report_order_);
  TellPeerClosedInOrder(BrokerSession::Sender::kUnhurried);
}

bool LocalConnector::TellPeerClosedInOrder(BrokerSession::Sender sender) {
  DisconnectReason reason;
  Status cause;
  {
    std::lock_guard lock(mutex_);
    if (!std::exchange(peer_close_unreported_, false)) return true;
    reason = reason_;
    cause = cause_;
  }
  if (SendReport(ReportWhat::kPeerClosed, reason, std::move(cause), sender)) return true;
  if (sender != BrokerSession::Sender::kAtOnce) return false;
  std::lock_guard lock(mutex_);
  peer_close_unreported_ = true;
  return false;
}

void LocalConnector::OnPeerClosedByBroker() {
  std::lock_guard lock(mutex_);
  if (phase_ != Phase::kEstablished || leaving_ != 0) return;
  phase_ = Phase::kPeerClosed;
}

void LocalConnector::OnAdapterGone() {
  std::lock_guard lock(mutex_);
  removed_ = true;
}

bool LocalConnector::AnswersHere() const {
  return phase_ == Phase::kPeerClosed && leaving_ == 0 && !removed_;
}

void LocalConnector::OnDisconnectEvent(DisconnectReason reason) {
  {
    std::lock_guard lock(mutex_);
    if (reason_ == DisconnectReason::kUnknown) reason_ = reason;
  }
  OnPeerClosedByBroker();
  FlushOnGoodbye();
  FireCallback(reason);
}

// On the keeper, because a device may be slow.
void LocalConnector::FlushOnGoodbye() {
  std::lock_guard lock(mutex_);
  if (!flush_on_goodbye_ || !queue_pair_) return;
  adapter->session->Post([queue_pair = queue_pair_] { static_cast<void>(queue_pair->real->Flush()); });
}

void LocalConnector::FireCallback(DisconnectReason reason) {
  std::function<void()> call;
  {
    // The callback is taken and posted under one lock, so that a close that finds no callback comes after it.
    std::lock_guard lock(mutex_);
    if (!callback_) return;
    call = [callback = std::exchange(callback_, nullptr), reason] { callback(reason); };
    if (adapter->session->dispatcher().TryPost(call)) return;
  }
  call();
}

void LocalConnector::CompleteLocalNotifies(const Status& status) {
  std::vector<std::shared_ptr<CallState>> notifies;
  {
    std::lock_guard lock(mutex_);
    notifies.swap(notifies_);
  }
  for (const auto& state : notifies) adapter->session->Finish(state, status);
}

void LocalConnector::OnTransportCommand(const session::TransportCommand& command) {
  if (command.what == session::TransportCommand::What::kPrepare) return Prepare(command.attributes);
  if (command.what == session::TransportCommand::What::kDrop) return Drop(command.reason);
  // An order to disconnect. When this side called Disconnect or Close, the goodbye has begun.
  std::shared_ptr<LocalQueuePair> used;
  {
    std::lock_guard lock(mutex_);
    if (phase_ == Phase::kDisconnecting || goodbye_) return;
    phase_ = Phase::kDisconnecting;
    disconnect_timeout_ = std::chrono::milliseconds(command.timeout_ms);
    used = queue_pair_;
  }
  RunGoodbye(used);
}

void LocalConnector::Drop(DisconnectReason reason) {
  std::shared_ptr<LocalQueuePair> used;
  {
    std::lock_guard lock(mutex_);
    used = queue_pair_;
    // To this side, an end by the administrator looks like the loss of the peer.
    const bool gone = reason == DisconnectReason::kLocalAdministrator;
    phase_ = gone && phase_ == Phase::kEstablished ? Phase::kPeerClosed : Phase::kDead;
    // When both sides are ended, the end of the other side may show first; the broker knows the reason.
    if (reason != DisconnectReason::kUnknown) reason_ = reason;
  }
  if (used) used->real->Drop();
  CompleteLocalNotifies({});
}

std::shared_ptr<LocalQueuePair> LocalConnector::BeginGoodbye() {
  std::lock_guard lock(mutex_);
  if (phase_ != Phase::kEstablished || !queue_pair_ || removed_) return nullptr;
  phase_ = Phase::kDisconnecting;
  return queue_pair_;
}

void LocalConnector::RunGoodbye(const std::shared_ptr<LocalQueuePair>& used) {
  CompleteLocalNotifies(StatusCode::kConnectionDisconnected);
  if (!used) return GoodbyeOver({});
  used->real->Disconnect(disconnect_timeout_, [self = shared_from_this()](Status status) {
    self->GoodbyeOver(std::move(status));
  });
}

void LocalConnector::GoodbyeOver(Status status) {
  std::vector<std::function<void(Status)>> waiting;
  {
    // Both at once: an order of the broker must find the goodbye under way or over.
    std::lock_guard lock(mutex_);
    phase_ = Phase::kDead;
    goodbye_ = status;
    waiting.swap(after_goodbye_);
  }
  CompleteLocalNotifies(StatusCode::kConnectionDisconnected);
  Report(ReportWhat::kDisconnectDone, DisconnectReason::kUnknown, status);
  for (const auto& then : waiting) then(status);
}

void LocalConnector::AfterGoodbye(std::function<void(Status)> then) {
  std::optional<Status> over;
  {
    std::lock_guard lock(mutex_);
    over = goodbye_;
    if (!over) after_goodbye_.push_back(std::move(then));
  }
  if (over) then(*over);
}

void LocalConnector::Finished() {
  {
    std::lock_guard lock(mutex_);
    phase_ = Phase::kDead;
  }
  CompleteLocalNotifies(StatusCode::kConnectionDisconnected);
}

Status LocalConnector::NotifyDisconnect(const Caller& caller) {
  bool here;
  {
    std::lock_guard lock(mutex_);
    here = AnswersHere();
  }
  if (here) {  // No operation and no completion to wait for.
    auto begun = adapter->session->Begin(caller);
    if (!begun.ok()) return begun.status();
    (*begun)->Abort();
    return {};
  }
  Status status = Simple<session::NotifyDisconnectOp>(caller, [self = shared_from_this()](Reply& reply) {
    if (reply.status.ok()) self->OnPeerClosedByBroker();
    return reply.status;
  });
  if (!IsUnreachable(status)) return status;
  auto begun = adapter->session->Begin(caller);
  if (!begun.ok()) return begun.status();
  {
    std::lock_guard lock(mutex_);
    switch (phase_) {
      case Phase::kEstablished:
        notifies_.push_back(*begun);
        status = StatusCode::kPending;
        break;
      case Phase::kPeerClosed:
        status = Status();
        break;
      case Phase::kSettingUp:
        break;
      case Phase::kDisconnecting:
      case Phase::kDead:
        status = Status(StatusCode::kConnectionDisconnected, "this side disconnected");
        break;
    }
  }
  if (status.pending()) return BrokerSession::Outcome(caller, *begun);
  (*begun)->Abort();
  return status;
}

void LocalConnector::Leave(const std::shared_ptr<LocalQueuePair>& used) {
  if (used) used->Part();
  Finished();
}

Status LocalConnector::Disconnect(const Caller& caller) {
  Changes();
  std::unique_lock order(report_order_);
  bool here;
  std::shared_ptr<LocalQueuePair> used;
  {
    std::lock_guard lock(mutex_);
    here = AnswersHere();
    used = queue_pair_;
  }
  const bool device = used && !used->real->sees_goodbye();
  if (!here && device) {
    order.unlock();
    return DisconnectByBroker(caller);
  }
  auto begun = adapter->session->Begin(caller);
  if (!begun.ok()) return begun.status();
  const std::shared_ptr<CallState> state = *begun;
  const Life at = life();
  if (here) {
    state->Abort();
    {
      std::lock_guard lock(mutex_);
      phase_ = Phase::kDead;
    }
    // The answer is final; the broker learns of it before later messages.
    TellPeerClosedInOrder(BrokerSession::Sender::kUnhurried);
    static_cast<void>(adapter->session->Submit(
        session::DisconnectOp{at.handle}, at.epoch, [](const Reply&) {}, BrokerSession::Sender::kPutOff));
    order.unlock();
    Leave(used);
    return {};
  }
  used = BeginGoodbye();
  if (!used) {
    state->Abort();
    order.unlock();
    return DisconnectByBroker(caller);
  }
  const auto answer = [self = shared_from_this(), state](Status status) {
    self->adapter->session->Finish(state, std::move(status));
  };
  BrokerSession::Ticket ticket;
  Status told = adapter->session->Submit(
      session::DisconnectOp{at.handle, /*begun=*/true}, at.epoch,
      [self = shared_from_this(), answer](const Reply& reply) {
        // The connection ends also when the broker is gone or has no room for the message.
        const bool untold = IsUnreachable(reply.status) || reply.status == StatusCode::kInsufficientResources;
        reply.status.ok() || untold ? self->AfterGoodbye(answer) : answer(reply.status);
      },
      BrokerSession::Sender::kApplication, caller.blocks() ? &ticket : nullptr);
  order.unlock();
  // After the message, so that the broker hears of the goodbye before its end.
  RunGoodbye(used);
  if (!told.ok()) AfterGoodbye(answer);
  adapter->session->AwaitReply(ticket);
  return BrokerSession::Outcome(caller, state);
}

Status LocalConnector::DisconnectByBroker(const Caller& caller) {
  auto counts_as_leaving = std::make_shared<bool>(false);  // This call counts in leaving_.
  {
    std::lock_guard lock(mutex_);
    *counts_as_leaving = phase_ == Phase::kEstablished;
    if (*counts_as_leaving) ++leaving_;
  }
  const bool waits = caller.blocks();
  Status status = Simple<session::DisconnectOp>(caller, [self = shared_from_this(), counts_as_leaving,
                                                         waits](Reply& reply) {
    // The disconnect was sent, and its answer is not waited for. A device keeps posted requests until they
    // are flushed.
    const bool unanswered = reply.status == StatusCode::kCanceled || reply.status == StatusCode::kIoTimeout;
    if (!reply.status.ok() && !(unanswered && self->OnDevice())) {
      self->NotLeaving(*counts_as_leaving);
      // The operation ended with the broker, but the connection must still end. A blocking caller does it
      // below.
      if (IsUnreachable(reply.status) && !waits) {
        if (const auto left = self->BeginGoodbye()) self->RunGoodbye(left);
      }
      return reply.status;
    }
    std::shared_ptr<LocalQueuePair> alive;
    {
      std::lock_guard lock(self->mutex_);
      if (self->phase_ != Phase::kDead) alive = self->queue_pair_;
    }
    // The peer disconnected in the meantime, so this side ends too.
    self->Leave(alive);
    return reply.status;
  });
  if (!status.ok() && !status.pending()) NotLeaving(*counts_as_leaving);
  return IsUnreachable(status) ? DisconnectLocally(caller) : status;
}

bool LocalConnector::OnDevice() {
  std::lock_guard lock(mutex_);
  return queue_pair_ && !queue_pair_->real->sees_goodbye();
}

void LocalConnector::NotLeaving(bool& counts_as_leaving) {
  std::lock_guard lock(mutex_);
  if (std::exchange(counts_as_leaving, false)) --leaving_;
}

Status LocalConnector::DisconnectLocally(const Caller& caller) {
  std::shared_ptr<LocalQueuePair> used;
  Phase phase;
  {
    std::lock_guard lock(mutex_);
    phase = phase_;
    used = queue_pair_;
  }
  switch (phase) {
    case Phase::kSettingUp:
      return {StatusCode::kDeviceRemoved, "the broker went away before the connection was established",
              Detail::kBrokerUnreachable};
    case Phase::kPeerClosed:
      Leave(used);
      return {};
    case Phase::kDisconnecting:
    case Phase::kDead:
    case Phase::kEstablished:
      break;
  }
  auto begun = adapter->session->Begin(caller);
  if (!begun.ok()) return begun.status();
  used = BeginGoodbye();
  if (!used) {
    (*begun)->Abort();
    return {StatusCode::kConnectionInvalid, "the connection is over"};
  }
  RunGoodbye(used);
  AfterGoodbye([self = shared_from_this(), state = *begun](Status status) {
    self->adapter->session->Finish(state, std::move(status));
  });
  return BrokerSession::Outcome(caller, *begun);
}

Status LocalConnector::Cancel() {
  Changes();
  CompleteLocalNotifies(StatusCode::kCanceled);
  Status status = Simple<session::CancelOp>({});
  // The loss of the broker has completed all other operations.
  return IsUnreachable(status) ? Status() : status;
}

Status LocalConnector::Close(const Caller& caller, bool wait) {
  auto begun = adapter->session->Begin(caller);
  if (!begun.ok()) return begun.status();
  const std::shared_ptr<CallState> state = *begun;
  if (closed_.exchange(true)) {
    state->Abort();
    return InvalidHandle(kWhat);
  }
  const bool direct = caller.blocks() && wait && adapter->session->dispatcher().OnThread();
  auto finish = [self = shared_from_this(), state, direct] {
    self->OnClosed();
    direct ? self->adapter->session->Finish(state, {}) : self->adapter->session->FinishClose(state, {});
  };
  TellPeerClosed();
  const std::shared_ptr<LocalQueuePair> leaving = OnDevice() ? nullptr : BeginGoodbye();
  auto locally = [self = shared_from_this(), finish, begun = leaving != nullptr] {
    const auto used = begun ? nullptr : self->BeginGoodbye();
    if (used) self->RunGoodbye(used);
    begun || used ? self->AfterGoodbye([finish](const Status&) { finish(); }) : finish();
  };
  const Life at = life();
  BrokerSession::Ticket ticket;
  Status sent = adapter->session->Submit(
      session::CloseOp{at.handle}, at.epoch,
      [finish, locally](const Reply& reply) { IsUnreachable(reply.status) ? locally() : finish(); },
      wait ? BrokerSession::Sender::kApplication : BrokerSession::Sender::kPutOff,
      wait && caller.blocks() ? &ticket : nullptr);
  if (leaving) RunGoodbye(leaving);
  if (!sent.ok()) locally();
  adapter->session->AwaitReply(ticket);
  return wait ? BrokerSession::Outcome(caller, state) : Status(StatusCode::kPending);
}

void LocalConnector::OnClosed() {
  std::shared_ptr<LocalQueuePair> used;
  bool alive, gone, holds;
  std::function<void(DisconnectReason)> callback;  // Destroyed outside the lock.
  {
    std::lock_guard lock(mutex_);
    used = std::move(queue_pair_);
    queue_pair_.reset();
    gone = phase_ == Phase::kPeerClosed;
    alive = phase_ == Phase::kEstablished || phase_ == Phase::kDisconnecting;
    holds = std::exchange(holds_queue_pair_, false);
    callback.swap(callback_);
  }
  if (used && alive) used->real->Drop();
  if (used && gone) used->Part();
  Finished();
  if (used) used->SetConnector(nullptr);
  adapter->session->Unregister(life().handle);
  adapter->session->RemoveLive(shared_from_this());
  if (used && holds) used->users.RemoveSuccessor();
}

}  // namespace nd::client
