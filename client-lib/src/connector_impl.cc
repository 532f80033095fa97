// SPDX-License-Identifier: Apache-2.0
// From Connect to the established connection, and its re-attachment after the broker was away. Each operation
// is one message and one completion. connector_end.cc has the end of connections.
#include "client-lib/src/connector_impl.h"

#include <utility>

namespace nd {

using client::InvalidHandle;
using client::Reply;

namespace {

// Above the limit of every adapter and below the maximum size of a message; larger data cannot be sent to the
// broker.
constexpr std::size_t kMaxCarriedData = 16384;

template <typename Op>
void SetPrivateData(PrivateData data, Op* op) {
  const auto* first = reinterpret_cast<const std::uint8_t*>(data.data());
  op->private_data.assign(first, first + data.size());
  op->private_data_length = static_cast<std::uint32_t>(data.size());
}

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

Result<Reply> Connector::Impl::AskLocalAddress() {
  auto reply = Ask<session::GetLocalAddressOp>();
  if (reply.ok()) SetAddresses(&reply->address, nullptr);
  return reply;
}

Result<Reply> Connector::Impl::AskPeerAddress() {
  auto reply = Ask<session::GetPeerAddressOp>();
  if (reply.ok()) SetAddresses(nullptr, &reply->address);
  return reply;
}

Status Connector::Impl::Connect(QueuePair& queue_pair, session::ConnectOp op, const Address& remote,
                                const ConnectOptions& options, Request* request) {
  std::shared_ptr<QueuePair::Impl> used;
  if (Status status = CheckQueuePair(queue_pair, &used); !status.ok()) return status;
  if (Status status = CheckData(options.private_data); !status.ok()) return status;
  const Life at = life();
  op.connector = at.handle;
  op.queue_pair = used->life().handle;
  op.remote = remote;
  op.limits = options.limits;
  SetPrivateData(options.private_data, &op);
  const Address source = op.source.value_or(Address());
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
  session::CompleteConnectOp op{at.handle};
  {
    std::lock_guard lock(mutex_);
    used = queue_pair_;
    op.disconnect_event = callback_ != nullptr;
  }
  return adapter->session->Perform(std::move(op), at.epoch, request,
                                   [self = shared_from_this(), used](Reply& reply) {
                                     if (used) return self->Establish(used, reply);
                                     // Submitted by one thread before another thread had processed the answer
                                     // to Connect, which is done by now.
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
  session::AcceptOp op;
  op.connector = at.handle;
  op.queue_pair = used->life().handle;
  op.limits = options.limits;
  SetPrivateData(options.private_data, &op);
  {
    std::lock_guard lock(mutex_);
    op.disconnect_event = callback_ != nullptr;
    // A second Accept will be refused and must not replace the first.
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
  if (!status.ok() && !status.pending()) answered();  // The operation may not have been sent.
  return status;
}

Status Connector::Impl::Reject(PrivateData private_data) {
  if (Status status = CheckData(private_data); !status.ok()) return status;
  const Life at = life();
  session::RejectOp op{at.handle};
  SetPrivateData(private_data, &op);
  return adapter->session->Perform(std::move(op), at.epoch, nullptr);
}

Status Connector::Impl::Establish(const std::shared_ptr<QueuePair::Impl>& queue_pair, Reply& reply) {
  if (!reply.status.ok()) return reply.status;
  Status status;
  if (!queue_pair || !reply.transport || reply.transport->record.connector != life().handle.value) {
    status = Status(StatusCode::kInternalError, "the broker completed the connection without its transport",
                    Detail::kProtocol);
  } else {
    SetAddresses(&reply.address, &reply.peer);
    {
      std::lock_guard lock(mutex_);
      queue_pair_ = queue_pair;
      phase_ = Phase::kEstablished;
      limits_ = {reply.transport->record.read_inbound, reply.transport->record.read_outbound};
      proof_ = std::move(reply.proof);
      flush_on_goodbye_ = reply.transport->record.transport == provider::Transport::kVerbs &&
                          (reply.transport->record.flags & provider::kHandOffFlushOnGoodbye) != 0;
      holds_queue_pair_ = queue_pair->users.AddSuccessor();
    }
    // Before Attach, because the disconnect of the peer may be waiting in the transport.
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
  session::TransportReportOp op;
  op.connector = at.handle;
  op.what = ReportWhat::kPrepared;
  op.status = used ? used->real->Prepare(attributes)
                   : Status(StatusCode::kCanceled, "the queue pair was closed meanwhile");
  // If the broker goes away now, the attempt ends.
  adapter->session->Report(std::move(op), at.epoch);
}

void Connector::Impl::OnQueuePairClosed() {
  Finished();
}

void Connector::Impl::Reattach(Life queue_pair, const std::function<void()>& done) {
  session::ReattachOp op;
  op.adapter = adapter->session->adapter().handle;
  {
    std::lock_guard lock(mutex_);
    // Without its addresses the new broker cannot re-attach it; it continues without a broker.
    if (closed_ || phase_ != Phase::kEstablished || !local_.well_formed() || local_.port() == 0 ||
        !remote_.well_formed()) {
      return done();
    }
    op.queue_pair = queue_pair.handle;
    op.local = local_;
    op.remote = remote_;
    op.limits = limits_;
    op.passive = passive_;
    op.proof = proof_;
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
          // The new broker does not know events of the meantime.
          if (gone) self->Report(ReportWhat::kPeerClosed, self->reason(), std::move(cause));
          if (closed) {
            static_cast<void>(self->adapter->session->Submit(
                session::CloseOp{reply.handle}, epoch, [](const Reply&) {},
                client::Session::Sender::kKeeper));
          }
        }
        done();
      },
      client::Session::Sender::kKeeper);
  if (!sent.ok()) done();
}

}  // namespace nd
