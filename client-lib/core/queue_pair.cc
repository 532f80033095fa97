// SPDX-License-Identifier: Apache-2.0
// A queue pair involves the broker only when it closes and when it returns to a new broker.
#include "client-lib/core/queue_pair.h"

#include <utility>

#include "client-lib/core/connector.h"

namespace nd::client {
namespace {

// The time-out for sending the answer to the disconnect of the peer.
constexpr Duration kLastWords = std::chrono::seconds(1);

}  // namespace

LocalQueuePair::LocalQueuePair(std::shared_ptr<LocalAdapter> owner, BrokerSession::Life born)
    : adapter(std::move(owner)), life_(born) {}

LocalQueuePair::~LocalQueuePair() {
  // The provider may hold the queue pair a moment longer and must not count in pages that are unmapped here.
  if (real && !adapter->session->in_child()) real->Drop();
}

BrokerSession::Life LocalQueuePair::life() {
  std::lock_guard lock(mutex_);
  return life_;
}

Result<std::uint32_t> LocalQueuePair::MakeKnown(session::CreateQueuePairOp op) {
  BrokerSession& session = *adapter->session;
  const std::uint32_t epoch = life().epoch;
  const auto spares = session.spares(epoch);
  const auto spare = spares ? spares->TakeQueuePair() : std::nullopt;
  if (!spare) {
    auto reply = session.Call(op, epoch);
    if (!reply.ok()) return reply.status();
    std::lock_guard lock(mutex_);
    life_.handle = reply->handle;
    return reply->counter_slot;
  }
  op.spare = spare->number;
  const auto name = session.SubmitAhead(op, epoch, [self = shared_from_this(), epoch](const Reply& reply) {
    std::lock_guard lock(self->mutex_);
    if (reply.status.ok() && self->life_.epoch == epoch) self->life_.handle = reply.handle;
  });
  if (!name.ok()) return name.status();
  std::lock_guard lock(mutex_);
  if (!life_.handle) life_.handle = *name;  // Otherwise the answer was faster.
  return spare->value - 1;
}

void LocalQueuePair::SetConnector(const std::shared_ptr<LocalConnector>& connector) {
  std::lock_guard lock(mutex_);
  connector_ = connector;
}

std::shared_ptr<LocalConnector> LocalQueuePair::connector() {
  std::lock_guard lock(mutex_);
  return connector_.lock();
}

void LocalQueuePair::OnPeerClosed(DisconnectReason reason, Status cause) {
  peer_left_ = true;
  if (auto connection = connector()) connection->OnPeerClosed(reason, std::move(cause));
}

void LocalQueuePair::OnSessionBack(const std::function<void()>& done) {
  if (closed) return done();
  const std::shared_ptr<LocalConnector> connection = connector();
  std::optional<session::ReattachOp> op;
  if (connection && adapter->session->reattach_makes_queue_pairs()) op = connection->ReturningConnection();
  if (!op) return ComeBack(true, done);
  op->receive_depth = receive_depth;
  op->initiator_depth = initiator_depth;
  op->device_number = real->device_number();
  const std::uint32_t epoch = adapter->session->adapter().epoch;
  Status sent = adapter->session->Submit(
      *std::move(op), epoch,
      [self = shared_from_this(), connection, epoch, done](const Reply& reply) {
        if (!reply.status.ok()) return self->ComeBack(false, done);
        connection->CameBack(reply, epoch);
        self->CameBack({reply.queue_pair, epoch}, reply.counter_slot);
        done();
      },
      BrokerSession::Sender::kKeeper);
  if (!sent.ok()) done();
}

void LocalQueuePair::ComeBack(bool with_connection, const std::function<void()>& done) {
  const auto [handle, epoch] = adapter->session->adapter();
  const session::CreateQueuePairOp op{handle, receive_depth, initiator_depth, real->device_number()};
  Status sent = adapter->session->Submit(
      op, epoch,
      [self = shared_from_this(), epoch = epoch, with_connection, done](const Reply& reply) {
        if (!reply.status.ok() || !self->CameBack({reply.handle, epoch}, reply.counter_slot)) return done();
        auto connection = with_connection ? self->connector() : nullptr;
        if (!connection) return done();
        connection->Reattach({reply.handle, epoch}, done);
      },
      BrokerSession::Sender::kKeeper);
  if (!sent.ok()) done();
}

bool LocalQueuePair::CameBack(BrokerSession::Life life, std::uint32_t slot) {
  {
    std::lock_guard lock(mutex_);
    life_ = life;
  }
  if (closed) {  // It was closed while it had no object at the broker.
    static_cast<void>(adapter->session->Submit(
        session::CloseOp{life.handle}, life.epoch, [](const Reply&) {}, BrokerSession::Sender::kKeeper));
    return false;
  }
  CarryCounters(slot);
  return true;
}

void LocalQueuePair::CarryCounters(std::uint32_t slot) {
  CounterSlot to{adapter->session->counters(), nullptr};
  to.counters = to.pages ? to.pages->Slot(slot) : nullptr;
  adapter->session->regions()->Use(to.pages);
  if (to.counters == nullptr || counted == nullptr) return;
  adapter->session->Carry(this, {counters, counted}, std::move(to));
  if (closed) adapter->session->carried().Remove(this);  // The copying began in the meantime.
}

void LocalQueuePair::ReleaseQueues() {
  if (receive_cq) receive_cq->lifetime.RemoveSuccessor();
  if (initiator_cq) initiator_cq->lifetime.RemoveSuccessor();
  if (srq) srq->lifetime.RemoveSuccessor();
}

void LocalQueuePair::Part() {
  // Kept alive until the provider has finished.
  real->Disconnect(kLastWords, [self = shared_from_this()](const Status&) {});
  static_cast<void>(real->Flush());
}

// Completes every outstanding request with CANCELED and ends the connection, if any.
void LocalQueuePair::Drop() {
  if (peer_left_) {
    Part();
  } else {
    real->Drop();
    static_cast<void>(real->Flush());
  }
  if (auto connection = connector()) connection->OnQueuePairClosed();
  adapter->session->RemoveLive(shared_from_this());
}

Status LocalQueuePair::Close(const Caller& caller, bool ndk, bool wait) {
  auto begun = adapter->session->Begin(caller);
  if (!begun.ok()) return begun.status();
  const std::shared_ptr<CallState> state = *begun;
  if (closed.exchange(true)) {
    state->Abort();
    return InvalidHandle(kWhat);
  }
  adapter->session->carried().Remove(this);  // Another queue pair will use its slot.
  const bool direct = caller.blocks() && wait && adapter->session->dispatcher().OnThread();
  auto finish = [self = shared_from_this(), state, direct] {
    self->Drop();
    auto release = [self] { self->ReleaseQueues(); };
    if (!direct) return self->adapter->session->FinishClose(state, release);
    self->adapter->session->Finish(state, {});
    self->adapter->session->dispatcher().Post(release);
  };
  if (auto connection = connector()) connection->TellPeerClosed();
  const BrokerSession::Life at = life();
  auto locally = [self = shared_from_this(), ndk, finish] {
    if (!ndk) return finish();
    self->users.Close(finish);
  };
  BrokerSession::Ticket ticket;
  Status sent = adapter->session->Submit(
      session::CloseOp{at.handle, ndk}, at.epoch,
      [finish, locally](const Reply& reply) { IsUnreachable(reply.status) ? locally() : finish(); },
      wait ? BrokerSession::Sender::kApplication : BrokerSession::Sender::kPutOff,
      wait && caller.blocks() ? &ticket : nullptr);
  if (!sent.ok()) locally();
  adapter->session->AwaitReply(ticket);
  return wait ? BrokerSession::Outcome(caller, state) : Status(StatusCode::kPending);
}

}  // namespace nd::client
