// SPDX-License-Identifier: Apache-2.0
// From Connect to the established connection, and its re-attachment after the broker was away. Each operation
// is one message and one completion. connector_end.cc has the end of connections.
#include "client-lib/core/connector.h"

#include <utility>

#include "client-lib/core/endpoint.h"

namespace nd::client {
namespace {

// Above the limit of every adapter and below the maximum size of a message; larger data cannot be sent to the
// broker.
constexpr std::size_t kMaxCarriedData = 16384;

// A broker of an earlier version does not tell the library its time-out for a disconnect.
constexpr Duration kTimeoutOfOlderBrokers = std::chrono::seconds(5);

template <typename Op>
void SetPrivateData(std::span<const std::byte> data, Op* op) {
  const auto* first = reinterpret_cast<const std::uint8_t*>(data.data());
  op->private_data.assign(first, first + data.size());
  op->private_data_length = static_cast<std::uint32_t>(data.size());
}

}  // namespace

std::shared_ptr<LocalConnector> LocalConnector::Make(std::shared_ptr<LocalAdapter> adapter, Life life,
                                                     bool passive) {
  auto made = std::make_shared<LocalConnector>(std::move(adapter), life, passive);
  made->adapter->session->AddLive(made);
  made->adapter->session->Register(life.handle, made);
  return made;
}

Result<std::shared_ptr<LocalConnector>> LocalConnector::MakeAhead(std::shared_ptr<LocalAdapter> adapter,
                                                                  Life opened, std::uint32_t spare) {
  auto made = std::make_shared<LocalConnector>(std::move(adapter), Life{{}, opened.epoch}, false);
  const auto name = made->adapter->session->SubmitAhead(
      session::CreateConnectorOp{opened.handle, spare}, opened.epoch, [made](const Reply& reply) {
        if (!reply.status.ok()) return;
        {
          std::lock_guard lock(made->mutex_);
          made->life_.handle = reply.handle;
        }
        made->adapter->session->Register(reply.handle, made);
      });
  if (!name.ok()) return name.status();
  {
    std::lock_guard lock(made->mutex_);
    if (!made->life_.handle) made->life_.handle = *name;  // Otherwise the answer was faster.
  }
  made->adapter->session->AddLive(made);
  return made;
}

LocalConnector::LocalConnector(std::shared_ptr<LocalAdapter> owner, Life life, bool passive)
    : adapter(std::move(owner)), life_(life), passive_(passive) {}

LocalConnector::Life LocalConnector::life() {
  std::lock_guard lock(mutex_);
  return life_;
}

void LocalConnector::SetAddresses(const Address* local, const Address* remote) {
  std::lock_guard lock(mutex_);
  if (local != nullptr && local->well_formed()) local_ = *local;
  if (remote != nullptr && remote->well_formed()) remote_ = *remote;
}

void LocalConnector::BecomePassive(const Address& local, Reply& request) {
  SetAddresses(&local, &request.address);
  std::lock_guard lock(mutex_);
  passive_ = true;
  arrived_ = Arrived{std::move(request.private_data), request.limits};
}

void LocalConnector::Changes() {
  std::lock_guard lock(mutex_);
  arrived_.reset();
}

std::optional<LocalConnector::Arrived> LocalConnector::Unchanged() {
  BrokerSession& session = *adapter->session;
  if (!session.connected()) return std::nullopt;
  const std::uint32_t epoch = session.adapter().epoch;
  std::lock_guard lock(mutex_);
  const bool usable = life_.epoch == epoch && phase_ == Phase::kSettingUp && !removed_ &&
                      (!queue_pair_ || !queue_pair_->closed);
  return usable ? arrived_ : std::nullopt;
}

void LocalConnector::SetDisconnectCallback(std::function<void(DisconnectReason)> callback) {
  std::lock_guard lock(mutex_);
  callback_.swap(callback);
}

DisconnectReason LocalConnector::reason() {
  if (adapter->session->in_child()) return DisconnectReason::kUnknown;
  std::lock_guard lock(mutex_);
  return reason_;
}

Status LocalConnector::CheckQueuePair(LocalQueuePair* queue_pair) const {
  if (!Valid(queue_pair)) return InvalidHandle(LocalQueuePair::kWhat);
  if (queue_pair->adapter != adapter) {
    return {StatusCode::kInvalidParameter1,
            "the queue pair was made from another adapter than the connector"};
  }
  return {};
}

Status LocalConnector::CheckData(std::span<const std::byte> data) {
  if (data.data() == nullptr && !data.empty()) {
    return {StatusCode::kAccessViolation,
            "private data of " + std::to_string(data.size()) + " bytes at address 0"};
  }
  if (data.size() > kMaxCarriedData) {
    return {StatusCode::kInvalidBufferSize, "private data of " + std::to_string(data.size()) + " bytes"};
  }
  return {};
}

Status LocalConnector::Bind(const Address& local) {
  const Life at = life();
  return adapter->session->Perform(session::BindOp{at.handle, local}, at.epoch, {},
                                   [self = shared_from_this(), local](Reply& reply) {
                                     if (reply.status.ok()) {
                                       self->SetAddresses(&local, nullptr);
                                       self->SetAddresses(&reply.address, nullptr);
                                     }
                                     return reply.status;
                                   });
}

Status LocalConnector::Connect(LocalQueuePair* queue_pair, const Address& remote,
                               const ConnectArguments& arguments, const Caller& caller) {
  return Connect(queue_pair, session::ConnectOp(), remote, arguments, caller);
}

Status LocalConnector::ConnectFrom(LocalQueuePair* queue_pair, const Address& source, const Address& remote,
                                   const ConnectArguments& arguments, const Caller& caller) {
  session::ConnectOp op;
  op.source = source;
  return Connect(queue_pair, std::move(op), remote, arguments, caller);
}

Status LocalConnector::ConnectFrom(LocalQueuePair* queue_pair, LocalSharedEndpoint* endpoint,
                                   const Address& remote, const ConnectArguments& arguments,
                                   const Caller& caller) {
  if (!Valid(endpoint)) return InvalidHandle(LocalSharedEndpoint::kWhat);
  if (endpoint->adapter != adapter) {
    return {StatusCode::kInvalidParameter2,
            "the shared endpoint was made from another adapter than the connector"};
  }
  session::ConnectOp op;
  op.shared_endpoint = endpoint->life().handle;
  Status status = Connect(queue_pair, std::move(op), remote, arguments, caller);
  if (status.ok() || status.pending()) SetAddresses(&endpoint->local, nullptr);
  return status;
}

Status LocalConnector::Connect(LocalQueuePair* queue_pair, session::ConnectOp op, const Address& remote,
                               const ConnectArguments& arguments, const Caller& caller) {
  if (Status status = CheckQueuePair(queue_pair); !status.ok()) return status;
  if (Status status = CheckData(arguments.private_data); !status.ok()) return status;
  Changes();
  const Life at = life();
  op.connector = at.handle;
  op.queue_pair = queue_pair->life().handle;
  op.remote = remote;
  op.limits = arguments.limits;
  SetPrivateData(arguments.private_data, &op);
  const Address source = op.source.value_or(Address());
  return adapter->session->Perform(
      std::move(op), at.epoch, caller,
      [self = shared_from_this(), used = queue_pair->shared_from_this(), remote, source](Reply& reply) {
        if (reply.status.ok()) {
          self->SetAddresses(source.port() != 0 ? &source : nullptr, &remote);
          self->SetAddresses(&reply.address, nullptr);
          std::lock_guard lock(self->mutex_);
          self->queue_pair_ = used;
          self->arrived_ = Arrived{std::move(reply.private_data), reply.limits};
        }
        return reply.status;
      });
}

Status LocalConnector::CompleteConnect(const Caller& caller) {
  std::shared_ptr<LocalQueuePair> used;
  const Life at = life();
  session::CompleteConnectOp op{at.handle};
  {
    std::lock_guard lock(mutex_);
    used = queue_pair_;
    arrived_.reset();
    op.disconnect_event = callback_ != nullptr;
  }
  return adapter->session->Perform(std::move(op), at.epoch, caller,
                                   [self = shared_from_this(), used](Reply& reply) {
                                     if (used) return self->Establish(used, reply);
                                     // Submitted by one thread before another thread had processed the answer
                                     // to Connect, which is done by now.
                                     std::shared_ptr<LocalQueuePair> late;
                                     {
                                       std::lock_guard lock(self->mutex_);
                                       late = self->queue_pair_;
                                     }
                                     return self->Establish(late, reply);
                                   });
}

Status LocalConnector::Accept(LocalQueuePair* queue_pair, const ConnectArguments& arguments,
                              const Caller& caller) {
  if (Status status = CheckQueuePair(queue_pair); !status.ok()) return status;
  if (Status status = CheckData(arguments.private_data); !status.ok()) return status;
  const std::shared_ptr<LocalQueuePair> used = queue_pair->shared_from_this();
  const Life at = life();
  session::AcceptOp op;
  op.connector = at.handle;
  op.queue_pair = used->life().handle;
  op.limits = arguments.limits;
  SetPrivateData(arguments.private_data, &op);
  {
    std::lock_guard lock(mutex_);
    arrived_.reset();
    op.disconnect_event = callback_ != nullptr;
    // A second Accept will be refused and must not replace the first.
    if (!accepting_) accepting_ = used;
  }
  const auto answered = [self = shared_from_this(), used] {
    std::lock_guard lock(self->mutex_);
    if (self->accepting_ == used) self->accepting_.reset();
  };
  Status status = adapter->session->Perform(std::move(op), at.epoch, caller,
                                            [self = shared_from_this(), used, answered](Reply& reply) {
                                              answered();
                                              return self->Establish(used, reply);
                                            });
  if (!status.ok() && !status.pending()) answered();  // The operation may not have been sent.
  return status;
}

Status LocalConnector::Reject(std::span<const std::byte> private_data) {
  if (Status status = CheckData(private_data); !status.ok()) return status;
  Changes();
  const Life at = life();
  session::RejectOp op{at.handle};
  SetPrivateData(private_data, &op);
  return adapter->session->Perform(std::move(op), at.epoch, {});
}

Result<ReadLimits> LocalConnector::GetReadLimits() {
  constexpr ReadLimits kNone;
  const auto arrived = Unchanged();
  if (arrived && !(arrived->limits == kNone)) return arrived->limits;
  auto reply = Ask<session::GetReadLimitsOp>();
  if (!reply.ok()) return reply.status();
  return reply->limits;
}

Result<session::Bytes> LocalConnector::GetPrivateData() {
  auto arrived = Unchanged();
  if (arrived && !arrived->data.empty()) return std::move(arrived->data);
  auto reply = Ask<session::GetPrivateDataOp>();
  if (!reply.ok()) return reply.status();
  return std::move(reply->private_data);
}

Result<Address> LocalConnector::GetLocalAddress() {
  auto reply = Ask<session::GetLocalAddressOp>();
  if (!reply.ok()) return reply.status();
  SetAddresses(&reply->address, nullptr);
  return reply->address;
}

Result<Address> LocalConnector::GetPeerAddress() {
  auto reply = Ask<session::GetPeerAddressOp>();
  if (!reply.ok()) return reply.status();
  SetAddresses(nullptr, &reply->address);
  return reply->address;
}

Status LocalConnector::Establish(const std::shared_ptr<LocalQueuePair>& queue_pair, Reply& reply) {
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
      disconnect_timeout_ = reply.disconnect_timeout_ms != 0
                                ? std::chrono::milliseconds(reply.disconnect_timeout_ms)
                                : kTimeoutOfOlderBrokers;
      flush_on_goodbye_ = !queue_pair->real->sees_goodbye() &&
                          (reply.transport->record.flags & provider::kHandOffFlushOnGoodbye) != 0;
      holds_queue_pair_ = queue_pair->users.AddSuccessor();
    }
    // Before Attach, because the disconnect of the peer may be waiting in the transport.
    queue_pair->SetConnector(shared_from_this());
    provider::HandOff& transport = *reply.transport;
    status =
        transport.fds.size() < transport.record.fd_count
            ? Status(StatusCode::kInsufficientResources,
                     "this process has no room for the descriptors of the connection; raise its limit of "
                     "open files (RLIMIT_NOFILE, ulimit -n) or close some")
            : queue_pair->real->Attach(std::move(transport));
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

void LocalConnector::Prepare(const std::vector<std::uint8_t>& attributes) {
  std::shared_ptr<LocalQueuePair> used;
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

void LocalConnector::OnQueuePairClosed() {
  Finished();
}

std::optional<session::ReattachOp> LocalConnector::ReturningConnection() {
  session::ReattachOp op;
  op.adapter = adapter->session->adapter().handle;
  std::lock_guard lock(mutex_);
  // Without its addresses the new broker cannot re-attach it; it continues without a broker.
  if (closed_ || phase_ != Phase::kEstablished || !local_.well_formed() || local_.port() == 0 ||
      !remote_.well_formed()) {
    return std::nullopt;
  }
  op.local = local_;
  op.remote = remote_;
  op.limits = limits_;
  op.passive = passive_;
  op.proof = proof_;
  return op;
}

void LocalConnector::Reattach(Life queue_pair, const std::function<void()>& done) {
  std::optional<session::ReattachOp> op = ReturningConnection();
  if (!op) return done();
  op->queue_pair = queue_pair.handle;
  Status sent = adapter->session->Submit(
      *std::move(op), queue_pair.epoch,
      [self = shared_from_this(), epoch = queue_pair.epoch, done](const Reply& reply) {
        if (reply.status.ok()) self->CameBack(reply, epoch);
        done();
      },
      BrokerSession::Sender::kKeeper);
  if (!sent.ok()) done();
}

void LocalConnector::CameBack(const Reply& reply, std::uint32_t epoch) {
  bool gone, closed;
  Status cause;
  {
    std::lock_guard lock(mutex_);
    life_ = {reply.handle, epoch};
    gone = phase_ == Phase::kPeerClosed;
    cause = cause_;
    closed = closed_ || phase_ == Phase::kDead || phase_ == Phase::kDisconnecting;
  }
  adapter->session->Register(reply.handle, shared_from_this());
  // The new broker does not know events of the meantime.
  if (gone) Report(ReportWhat::kPeerClosed, reason(), std::move(cause));
  if (closed) {
    static_cast<void>(adapter->session->Submit(
        session::CloseOp{reply.handle}, epoch, [](const Reply&) {}, BrokerSession::Sender::kKeeper));
  }
}

}  // namespace nd::client
