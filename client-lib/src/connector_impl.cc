// SPDX-License-Identifier: Apache-2.0
// From Connect to the established connection, and back to it when the broker was away. Each operation is one
// message and one completion. How a connection ends is in connector_end.cc.
#include "client-lib/src/connector_impl.h"

#include <utility>

namespace nd {

using client::InvalidHandle;
using client::Op;
using client::OpKind;
using client::Reply;
using client::ReportWhat;

namespace {

// Above every adapter's limit and below what a message may carry: the broker cannot be asked any more.
constexpr std::size_t kMaxCarriedData = 16384;

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
