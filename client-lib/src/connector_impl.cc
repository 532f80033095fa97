// SPDX-License-Identifier: Apache-2.0
// From Connect to the goodbye. Each operation is one message and one completion; where the broker may be
// away, the same thing is done with the queue pair alone.
#include "client-lib/src/connector_impl.h"

#include <utility>

namespace nd {

using client::InvalidHandle;
using client::IsUnreachable;
using client::Op;
using client::OpKind;
using client::Reply;
using client::ReportWhat;

namespace {

// Above every adapter's limit and below what a message may carry: the broker cannot be asked any more.
constexpr std::size_t kMaxCarriedData = 16384;
// Without the broker's word for it, a goodbye may stay unanswered this long.
constexpr Duration kLocalDisconnectTimeout = std::chrono::seconds(5);

}  // namespace

std::shared_ptr<Connector::Impl> Connector::Impl::Make(std::shared_ptr<Adapter::Impl> adapter, Life life,
                                                       bool passive) {
  auto made = std::make_shared<Impl>(std::move(adapter), life, passive);
  made->adapter->session->AddLive(made);
  made->adapter->session->Register(life.handle, made);
  return made;
}

Connector::Impl::Impl(std::shared_ptr<Adapter::Impl> owner, Life life, bool passive)
    : adapter(std::move(owner)), life_(life), passive_(passive) {}

Connector::Impl::Life Connector::Impl::life() {
  std::lock_guard lock(mutex_);
  return life_;
}

void Connector::Impl::SetAddresses(const Address* local, const Address* remote) {
  std::lock_guard lock(mutex_);
  if (local != nullptr && local->well_formed()) local_ = *local;
  if (remote != nullptr && remote->well_formed()) remote_ = *remote;
}

void Connector::Impl::MakePassive() {
  std::lock_guard lock(mutex_);
  passive_ = true;
}

void Connector::Impl::SetCallback(std::function<void(DisconnectReason)> callback) {
  std::lock_guard lock(mutex_);
  callback_.swap(callback);
}

DisconnectReason Connector::Impl::reason() {
  std::lock_guard lock(mutex_);
  return reason_;
}

Status Connector::Impl::CheckQueuePair(const QueuePair& queue_pair, std::shared_ptr<QueuePair::Impl>* out) {
  if (!queue_pair.impl() || !queue_pair.impl()->usable()) return InvalidHandle("the queue pair");
  if (queue_pair.impl()->adapter != adapter) {
    return {StatusCode::kInvalidParameter1,
            "the queue pair was made from another adapter than the connector"};
  }
  *out = queue_pair.impl()->shared_from_this();
  return {};
}

Status Connector::Impl::CheckData(PrivateData data) {
  if (data.data() == nullptr && !data.empty()) {
    return {StatusCode::kAccessViolation,
            "private data of " + std::to_string(data.size()) + " bytes at address 0"};
  }
  if (data.size() > kMaxCarriedData) {
    return {StatusCode::kInvalidBufferSize, "private data of " + std::to_string(data.size()) + " bytes"};
  }
  return {};
}

Status Connector::Impl::Simple(OpKind kind, Request* request, client::Session::Then then) {
  const Life at = life();
  return adapter->session->Perform(Op(kind, at.handle), at.epoch, request, std::move(then));
}

Result<Reply> Connector::Impl::Ask(OpKind kind) {
  const Life at = life();
  auto reply = adapter->session->Call(Op(kind, at.handle), at.epoch);
  if (reply.ok() && kind == OpKind::kGetLocalAddress) SetAddresses(&reply->address, nullptr);
  if (reply.ok() && kind == OpKind::kGetPeerAddress) SetAddresses(nullptr, &reply->address);
  return reply;
}

Status Connector::Impl::Connect(QueuePair& queue_pair, Op op, const Address& remote,
                                const ConnectOptions& options, Request* request) {
  std::shared_ptr<QueuePair::Impl> used;
  if (Status status = CheckQueuePair(queue_pair, &used); !status.ok()) return status;
  if (Status status = CheckData(options.private_data); !status.ok()) return status;
  const Life at = life();
  op.kind = OpKind::kConnect;
  op.handle = at.handle;
  op.queue_pair = used->life().handle;
  op.remote = remote;
  op.limits = options.limits;
  op.data.assign(options.private_data.begin(), options.private_data.end());
  const Address source = op.local.value_or(Address());
  return adapter->session->Perform(std::move(op), at.epoch, request,
                                   [self = shared_from_this(), used, remote, source](Reply& reply) {
                                     if (reply.status.ok()) {
                                       self->SetAddresses(source.port() != 0 ? &source : nullptr, &remote);
                                       self->SetAddresses(&reply.address, nullptr);
                                       std::lock_guard lock(self->mutex_);
                                       self->queue_pair_ = used;
                                     }
                                     return reply.status;
                                   });
}

Status Connector::Impl::CompleteConnect(Request* request) {
  std::shared_ptr<QueuePair::Impl> used;
  const Life at = life();
  Op op(OpKind::kCompleteConnect, at.handle);
  {
    std::lock_guard lock(mutex_);
    used = queue_pair_;
    op.events = callback_ != nullptr;
  }
  return adapter->session->Perform(std::move(op), at.epoch, request,
                                   [self = shared_from_this(), used](Reply& reply) {
                                     if (used) return self->Establish(used, reply);
                                     // Asked for by one thread before the answer to Connect was through on
                                     // another; it is by now.
                                     std::shared_ptr<QueuePair::Impl> late;
                                     {
                                       std::lock_guard lock(self->mutex_);
                                       late = self->queue_pair_;
                                     }
                                     return self->Establish(late, reply);
                                   });
}

Status Connector::Impl::Accept(QueuePair& queue_pair, const ConnectOptions& options, Request* request) {
  std::shared_ptr<QueuePair::Impl> used;
  if (Status status = CheckQueuePair(queue_pair, &used); !status.ok()) return status;
  if (Status status = CheckData(options.private_data); !status.ok()) return status;
  const Life at = life();
  Op op(OpKind::kAccept, at.handle);
  op.queue_pair = used->life().handle;
  op.limits = options.limits;
  op.data.assign(options.private_data.begin(), options.private_data.end());
  {
    std::lock_guard lock(mutex_);
    op.events = callback_ != nullptr;
    // A second Accept will be refused and must not take the place of the first.
    if (!accepting_) accepting_ = used;
  }
  const auto answered = [self = shared_from_this(), used] {
    std::lock_guard lock(self->mutex_);
    if (self->accepting_ == used) self->accepting_.reset();
  };
  Status status = adapter->session->Perform(std::move(op), at.epoch, request,
                                            [self = shared_from_this(), used, answered](Reply& reply) {
                                              answered();
                                              return self->Establish(used, reply);
                                            });
  if (!status.ok() && !status.pending()) answered();  // It may never have been sent.
  return status;
}

Status Connector::Impl::Reject(PrivateData private_data) {
  if (Status status = CheckData(private_data); !status.ok()) return status;
  const Life at = life();
  Op op(OpKind::kReject, at.handle);
  op.data.assign(private_data.begin(), private_data.end());
  return adapter->session->Perform(std::move(op), at.epoch, nullptr);
}

Status Connector::Impl::Establish(const std::shared_ptr<QueuePair::Impl>& queue_pair, Reply& reply) {
  if (!reply.status.ok()) return reply.status;
  Status status;
  if (!queue_pair || !reply.transport || reply.transport->record.connector != life().handle) {
    status = Status(StatusCode::kInternalError, "the broker completed the connection without its transport",
                    Detail::kProtocol);
  } else {
    SetAddresses(&reply.address, &reply.peer);
    {
      std::lock_guard lock(mutex_);
      queue_pair_ = queue_pair;
      phase_ = Phase::kEstablished;
      limits_ = {reply.transport->record.read_inbound, reply.transport->record.read_outbound};
      flush_on_goodbye_ = reply.transport->record.transport == provider::Transport::kVerbs &&
                          (reply.transport->record.flags & provider::kHandOffFlushOnGoodbye) != 0;
      holds_queue_pair_ = queue_pair->users.AddSuccessor();
    }
    // Before Attach: the peer's goodbye may already be waiting inside.
    queue_pair->SetConnector(shared_from_this());
    status = queue_pair->real->Attach(std::move(*reply.transport));
  }
  if (!status.ok()) {
    {
      std::lock_guard lock(mutex_);
      phase_ = Phase::kDead;
      reason_ = DisconnectReason::kEstablishmentFailed;
    }
    Report(ReportWhat::kPeerClosed, DisconnectReason::kEstablishmentFailed, status);
    return status;
  }
  return {};
}

// The broker hears of it in the background; if it is away, what it would have done is done here.
// In the background, on the keeper.
void Connector::Impl::Report(ReportWhat what, DisconnectReason reason, Status status) {
  adapter->session->Post([self = shared_from_this(), what, reason, status = std::move(status)] {
    self->SendReport(what, reason, status);
  });
}

// If the broker is away, what it would have done is done here.
void Connector::Impl::SendReport(ReportWhat what, DisconnectReason reason, Status status) {
  const Life at = life();
  Op op(OpKind::kTransportReport, at.handle);
  op.what = what;
  op.reason = reason;
  op.status = std::move(status);
  const auto locally = [self = shared_from_this(), what, reason] {
    if (what == ReportWhat::kPeerClosed) self->FireCallback(reason);
  };
  Status sent = adapter->session->Submit(std::move(op), at.epoch, [locally](const Reply& reply) {
    if (IsUnreachable(reply.status)) locally();
  });
  if (!sent.ok()) locally();
}

void Connector::Impl::OnPeerClosed(DisconnectReason reason, Status cause) {
  {
    std::lock_guard lock(mutex_);
    if (phase_ != Phase::kEstablished) return;
    phase_ = Phase::kPeerClosed;
    reason_ = reason;
    cause_ = std::move(cause);
    untold_ = true;
  }
  CompleteLocalNotifies({});
  adapter->session->Post([self = shared_from_this()] { self->TellPeerClosed(); });
}

void Connector::Impl::TellPeerClosed() {
  std::lock_guard order(telling_);
  TellPeerClosedInOrder();
}

void Connector::Impl::TellPeerClosedInOrder() {
  DisconnectReason reason;
  Status cause;
  {
    std::lock_guard lock(mutex_);
    if (!std::exchange(untold_, false)) return;
    reason = reason_;
    cause = cause_;
  }
  SendReport(ReportWhat::kPeerClosed, reason, std::move(cause));
}

void Connector::Impl::HeardPeerClosed() {
  std::lock_guard lock(mutex_);
  if (phase_ != Phase::kEstablished || leaving_ != 0) return;
  phase_ = Phase::kPeerClosed;
}

void Connector::Impl::OnAdapterGone() {
  std::lock_guard lock(mutex_);
  removed_ = true;
}

bool Connector::Impl::AnswersHere() const {
  return phase_ == Phase::kPeerClosed && leaving_ == 0 && !removed_;
}

void Connector::Impl::OnDisconnectEvent(DisconnectReason reason) {
  {
    std::lock_guard lock(mutex_);
    if (reason_ == DisconnectReason::kUnknown) reason_ = reason;
  }
  HeardPeerClosed();
  FlushOnGoodbye();
  FireCallback(reason);
}

// On the keeper, since a device may take its time.
void Connector::Impl::FlushOnGoodbye() {
  std::lock_guard lock(mutex_);
  if (!flush_on_goodbye_ || !queue_pair_) return;
  adapter->session->Post([queue_pair = queue_pair_] { static_cast<void>(queue_pair->real->Flush()); });
}

void Connector::Impl::FireCallback(DisconnectReason reason) {
  std::function<void()> call;
  {
    // Taken and posted in one: a close that finds no callback any more must come after it.
    std::lock_guard lock(mutex_);
    if (!callback_) return;
    call = [callback = std::exchange(callback_, nullptr), reason] { callback(reason); };
    if (adapter->session->dispatcher().TryPost(call)) return;
  }
  call();
}

void Connector::Impl::CompleteLocalNotifies(const Status& status) {
  std::vector<State> notifies;
  {
    std::lock_guard lock(mutex_);
    notifies.swap(notifies_);
  }
  for (const State& state : notifies) adapter->session->Finish(state, status);
}

void Connector::Impl::Prepare(const std::vector<std::uint8_t>& attributes) {
  std::shared_ptr<QueuePair::Impl> used;
  {
    std::lock_guard lock(mutex_);
    used = accepting_ ? accepting_ : queue_pair_;
  }
  const Life at = life();
  Op op(OpKind::kTransportReport, at.handle);
  op.what = ReportWhat::kPrepared;
  op.status = used ? used->real->Prepare(attributes)
                   : Status(StatusCode::kCanceled, "the queue pair was closed meanwhile");
  // If the broker goes away now, so does the attempt.
  adapter->session->Say(op, at.epoch);
}

void Connector::Impl::OnTransportCommand(const client::TransportCommand& command) {
  if (command.what == client::TransportCommand::What::kPrepare) return Prepare(command.attributes);
  std::shared_ptr<QueuePair::Impl> used;
  {
    std::lock_guard lock(mutex_);
    used = queue_pair_;
    if (command.what == client::TransportCommand::What::kDrop) {
      // An administrator's end looks to this side as if the peer had gone.
      const bool gone = command.reason == DisconnectReason::kLocalAdministrator;
      phase_ = gone && phase_ == Phase::kEstablished ? Phase::kPeerClosed : Phase::kDead;
      // What ends both sides may show itself as the other side's end first; the broker knows.
      if (command.reason != DisconnectReason::kUnknown) reason_ = command.reason;
    } else {
      phase_ = Phase::kDisconnecting;
    }
  }
  if (command.what == client::TransportCommand::What::kDrop) {
    if (used) used->real->Drop();
    return CompleteLocalNotifies({});
  }
  const auto done = [self = shared_from_this()](Status status) {
    self->Finished();
    self->Report(ReportWhat::kDisconnectDone, DisconnectReason::kUnknown, std::move(status));
  };
  if (!used) return done({});
  used->real->Disconnect(std::chrono::milliseconds(command.timeout_ms), done);
}

void Connector::Impl::Finished() {
  {
    std::lock_guard lock(mutex_);
    phase_ = Phase::kDead;
  }
  CompleteLocalNotifies(StatusCode::kConnectionDisconnected);
}

Status Connector::Impl::NotifyDisconnect(Request* request) {
  bool here;
  {
    std::lock_guard lock(mutex_);
    here = AnswersHere();
  }
  if (here) {  // Nothing to wait for: no operation, no completion.
    auto begun = adapter->session->Begin(request);
    if (!begun.ok()) return begun.status();
    (*begun)->Abort();
    return {};
  }
  Status status = Simple(OpKind::kNotifyDisconnect, request, [self = shared_from_this()](Reply& reply) {
    if (reply.status.ok()) self->HeardPeerClosed();
    return reply.status;
  });
  if (!IsUnreachable(status)) return status;
  auto begun = adapter->session->Begin(request);
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
  if (status.pending()) return client::Session::Outcome(request, *begun);
  (*begun)->Abort();
  return status;
}

void Connector::Impl::Leave(const std::shared_ptr<QueuePair::Impl>& used) {
  if (used) used->Part();
  Finished();
}

Status Connector::Impl::Disconnect(Request* request) {
  std::shared_ptr<QueuePair::Impl> used;
  std::unique_lock order(telling_);
  bool here;
  auto first_word = std::make_shared<bool>(false);  // This call counts in leaving_.
  {
    std::lock_guard lock(mutex_);
    here = AnswersHere();
    used = queue_pair_;
    *first_word = phase_ == Phase::kEstablished;
    if (*first_word) ++leaving_;
  }
  if (here) {
    auto begun = adapter->session->Begin(request);
    if (!begun.ok()) return begun.status();
    (*begun)->Abort();
    {
      std::lock_guard lock(mutex_);
      phase_ = Phase::kDead;
    }
    // Nothing can change the answer any more; the broker hears of it before anything that comes later.
    TellPeerClosedInOrder();
    const Life at = life();
    static_cast<void>(
        adapter->session->Submit(Op(OpKind::kDisconnect, at.handle), at.epoch, [](const Reply&) {}));
    order.unlock();
    Leave(used);
    return {};
  }
  order.unlock();
  const bool waits = request == nullptr;
  Status status =
      Simple(OpKind::kDisconnect, request, [self = shared_from_this(), first_word, waits](Reply& reply) {
        // The goodbye is out; only its answer was not waited for. A device keeps what was posted until it is
        // told.
        const bool unanswered =
            reply.status == StatusCode::kCanceled || reply.status == StatusCode::kIoTimeout;
        if (!reply.status.ok() && !(unanswered && self->OnDevice())) {
          self->NotLeaving(*first_word);
          // The operation ended with the broker; what it was for is done all the same. Who waits does it
          // below.
          if (IsUnreachable(reply.status) && !waits) self->GoodbyeWithoutBroker();
          return reply.status;
        }
        std::shared_ptr<QueuePair::Impl> alive;
        {
          std::lock_guard lock(self->mutex_);
          if (self->phase_ != Phase::kDead) alive = self->queue_pair_;
        }
        // The peer's goodbye was heard meanwhile: nobody asked us to do the same, so it is done here.
        self->Leave(alive);
        return reply.status;
      });
  if (!status.ok() && !status.pending()) NotLeaving(*first_word);
  return IsUnreachable(status) ? DisconnectLocally(request) : status;
}

bool Connector::Impl::OnDevice() {
  std::lock_guard lock(mutex_);
  return queue_pair_ && queue_pair_->real->device_number() != 0;
}

void Connector::Impl::NotLeaving(bool& first_word) {
  std::lock_guard lock(mutex_);
  if (std::exchange(first_word, false)) --leaving_;
}

void Connector::Impl::GoodbyeWithoutBroker() {
  std::shared_ptr<QueuePair::Impl> used;
  {
    std::lock_guard lock(mutex_);
    if (phase_ != Phase::kEstablished) return;
    phase_ = Phase::kDisconnecting;
    used = queue_pair_;
  }
  CompleteLocalNotifies(StatusCode::kConnectionDisconnected);
  used->real->Disconnect(kLocalDisconnectTimeout,
                         [self = shared_from_this()](const Status&) { self->Finished(); });
}

Status Connector::Impl::DisconnectLocally(Request* request) {
  std::shared_ptr<QueuePair::Impl> used;
  Phase phase;
  {
    std::lock_guard lock(mutex_);
    phase = phase_;
    used = queue_pair_;
    if (phase == Phase::kEstablished) phase_ = Phase::kDisconnecting;
  }
  switch (phase) {
    case Phase::kSettingUp:
      return {StatusCode::kDeviceRemoved, "the broker went away before the connection was established",
              Detail::kBrokerUnreachable};
    case Phase::kDisconnecting:
    case Phase::kDead:
      return {StatusCode::kConnectionInvalid, "the connection is over"};
    case Phase::kPeerClosed:
      Leave(used);
      return {};
    case Phase::kEstablished:
      break;
  }
  auto begun = adapter->session->Begin(request);
  if (!begun.ok()) {
    std::lock_guard lock(mutex_);
    phase_ = phase;
    return begun.status();
  }
  CompleteLocalNotifies(StatusCode::kConnectionDisconnected);
  used->real->Disconnect(kLocalDisconnectTimeout, [self = shared_from_this(), state = *begun](Status status) {
    self->Finished();
    self->adapter->session->Finish(state, std::move(status));
  });
  return client::Session::Outcome(request, *begun);
}

Status Connector::Impl::Cancel() {
  CompleteLocalNotifies(StatusCode::kCanceled);
  Status status = Simple(OpKind::kCancel, nullptr);
  // The loss of the broker has completed everything else.
  return IsUnreachable(status) ? Status() : status;
}

Status Connector::Impl::Close(Request* request, bool wait) {
  auto begun = adapter->session->Begin(request);
  if (!begun.ok()) return begun.status();
  const State state = *begun;
  if (closed_.exchange(true)) {
    state->Abort();
    return InvalidHandle("the connector");
  }
  const bool direct = request == nullptr && wait && adapter->session->dispatcher().OnThread();
  auto finish = [self = shared_from_this(), state, direct] {
    self->OnClosed();
    direct ? self->adapter->session->Finish(state, {}) : self->adapter->session->FinishClose(state, {});
  };
  auto locally = [self = shared_from_this(), finish] {
    std::shared_ptr<QueuePair::Impl> used;
    {
      std::lock_guard lock(self->mutex_);
      if (self->phase_ == Phase::kEstablished) {
        used = self->queue_pair_;
        self->phase_ = Phase::kDisconnecting;
      }
    }
    if (!used) return finish();
    used->real->Disconnect(kLocalDisconnectTimeout, [finish](const Status&) { finish(); });
  };
  TellPeerClosed();
  const Life at = life();
  Status sent = adapter->session->Submit(
      Op(OpKind::kClose, at.handle), at.epoch,
      [finish, locally](const Reply& reply) { IsUnreachable(reply.status) ? locally() : finish(); });
  if (!sent.ok()) locally();
  return wait ? client::Session::Outcome(request, state) : Status(StatusCode::kPending);
}

void Connector::Impl::OnClosed() {
  std::shared_ptr<QueuePair::Impl> used;
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

void Connector::Impl::OnQueuePairClosed() {
  Finished();
}

void Connector::Impl::Reattach(Life queue_pair, const std::function<void()>& done) {
  Op op(OpKind::kReattach, adapter->session->adapter().handle);
  {
    std::lock_guard lock(mutex_);
    // Without its addresses the broker cannot take it back; it lives on without one.
    if (closed_ || phase_ != Phase::kEstablished || !local_.well_formed() || local_.port() == 0 ||
        !remote_.well_formed()) {
      return done();
    }
    op.queue_pair = queue_pair.handle;
    op.local = local_;
    op.remote = remote_;
    op.limits = limits_;
    op.passive = passive_;
  }
  Status sent = adapter->session->Submit(
      std::move(op), queue_pair.epoch,
      [self = shared_from_this(), epoch = queue_pair.epoch, done](const Reply& reply) {
        if (reply.status.ok()) {
          bool gone, closed;
          Status cause;
          {
            std::lock_guard lock(self->mutex_);
            self->life_ = {reply.handle, epoch};
            gone = self->phase_ == Phase::kPeerClosed;
            cause = self->cause_;
            closed = self->closed_ || self->phase_ == Phase::kDead || self->phase_ == Phase::kDisconnecting;
          }
          self->adapter->session->Register(reply.handle, self);
          // What happened meanwhile, the new broker has not heard.
          if (gone) self->Report(ReportWhat::kPeerClosed, self->reason(), std::move(cause));
          if (closed) {
            static_cast<void>(self->adapter->session->Submit(
                Op(OpKind::kClose, reply.handle), epoch, [](const Reply&) {},
                client::Session::Sender::kKeeper));
          }
        }
        done();
      },
      client::Session::Sender::kKeeper);
  if (!sent.ok()) done();
}

}  // namespace nd
