// SPDX-License-Identifier: Apache-2.0
// Posts go to the provider directly; only creation and close of a queue pair involve the broker.
#include "nd/queue_pair.h"

#include <utility>

#include "client-lib/src/connector_impl.h"
#include "client-lib/src/queue_pair_impl.h"

namespace nd {

using client::Reply;
using client::Session;

namespace {

// The time-out for sending the answer to the disconnect of the peer.
constexpr Duration kLastWords = std::chrono::seconds(1);

}  // namespace

QueuePair::Impl::Impl(std::shared_ptr<Adapter::Impl> owner, Session::Life born)
    : adapter(std::move(owner)), life_(born) {}

QueuePair::Impl::~Impl() {
  // The provider may hold the queue pair a moment longer and must not count in pages that are unmapped here.
  if (real && !adapter->session->in_child()) real->Drop();
}

Session::Life QueuePair::Impl::life() {
  std::lock_guard lock(mutex_);
  return life_;
}

void QueuePair::Impl::SetConnector(const std::shared_ptr<Connector::Impl>& connector) {
  std::lock_guard lock(mutex_);
  connector_ = connector;
}

std::shared_ptr<Connector::Impl> QueuePair::Impl::connector() {
  std::lock_guard lock(mutex_);
  return connector_.lock();
}

void QueuePair::Impl::OnPeerClosed(DisconnectReason reason, Status cause) {
  peer_left_ = true;
  if (auto connection = connector()) connection->OnPeerClosed(reason, std::move(cause));
}

void QueuePair::Impl::OnSessionBack(const std::function<void()>& done) {
  if (closed) return done();
  const auto [handle, epoch] = adapter->session->adapter();
  const session::CreateQueuePairOp op{handle, options.receive_depth, options.initiator_depth,
                                      real->device_number()};
  Status sent = adapter->session->Submit(
      op, epoch,
      [self = shared_from_this(), epoch = epoch, done](const Reply& reply) {
        if (!reply.status.ok()) return done();
        {
          std::lock_guard lock(self->mutex_);
          self->life_ = {reply.handle, epoch};
        }
        if (self->closed) {  // In the meantime, when it had no object at the broker.
          static_cast<void>(self->adapter->session->Submit(
              session::CloseOp{reply.handle}, epoch, [](const Reply&) {}, Session::Sender::kKeeper));
          return done();
        }
        self->CarryCounters(reply.counter_slot);
        auto connection = self->connector();
        if (!connection) return done();
        connection->Reattach({reply.handle, epoch}, done);
      },
      Session::Sender::kKeeper);
  if (!sent.ok()) done();
}

void QueuePair::Impl::CarryCounters(std::uint32_t slot) {
  client::CounterSlot to{adapter->session->counters(), nullptr};
  to.counters = to.pages ? to.pages->Slot(slot) : nullptr;
  adapter->session->regions()->Use(to.pages);
  if (to.counters == nullptr || counted == nullptr) return;
  adapter->session->Carry(this, {counters, counted}, std::move(to));
  if (closed) adapter->session->carried().Remove(this);  // The copying began in the meantime.
}

void QueuePair::Impl::ReleaseQueues() {
  if (receive_cq) receive_cq->lifetime.RemoveSuccessor();
  if (initiator_cq) initiator_cq->lifetime.RemoveSuccessor();
  if (srq) srq->lifetime.RemoveSuccessor();
}

void QueuePair::Impl::Part() {
  // Kept alive until the provider has finished.
  real->Disconnect(kLastWords, [self = shared_from_this()](const Status&) {});
  static_cast<void>(real->Flush());
}

// Completes every outstanding request with CANCELED and ends the connection, if any.
void QueuePair::Impl::Drop() {
  if (peer_left_) {
    Part();
  } else {
    real->Drop();
    static_cast<void>(real->Flush());
  }
  if (auto connection = connector()) connection->OnQueuePairClosed();
  adapter->session->RemoveLive(shared_from_this());
}

Status QueuePair::Impl::Close(Request* request, bool ndk, bool wait) {
  auto begun = adapter->session->Begin(request);
  if (!begun.ok()) return begun.status();
  const std::shared_ptr<Request::State> state = *begun;
  if (closed.exchange(true)) {
    state->Abort();
    return client::InvalidHandle("the queue pair");
  }
  adapter->session->carried().Remove(this);  // Another queue pair will use its slot.
  const bool direct = request == nullptr && wait && adapter->session->dispatcher().OnThread();
  auto finish = [self = shared_from_this(), state, direct] {
    self->Drop();
    auto release = [self] { self->ReleaseQueues(); };
    if (!direct) return self->adapter->session->FinishClose(state, release);
    self->adapter->session->Finish(state, {});
    self->adapter->session->dispatcher().Post(release);
  };
  if (auto connection = connector()) connection->TellPeerClosed();
  const Session::Life at = life();
  auto locally = [self = shared_from_this(), ndk, finish] {
    if (!ndk) return finish();
    self->users.Close(finish);
  };
  Status sent = adapter->session->Submit(
      session::CloseOp{at.handle, ndk}, at.epoch,
      [finish, locally](const Reply& reply) { client::IsUnreachable(reply.status) ? locally() : finish(); });
  if (!sent.ok()) locally();
  return wait ? Session::Outcome(request, state) : Status(StatusCode::kPending);
}

QueuePair::QueuePair(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}

namespace {

template <typename Function>
Status Post(const std::shared_ptr<QueuePair::Impl>& impl, Function function) {
  if (!impl || !impl->usable()) return client::InvalidHandle("the queue pair");
  return function(*impl->real);
}

}  // namespace

Status QueuePair::Receive(void* request_context, std::span<const Sge> sges) {
  return Post(impl_, [&](provider::QueuePair& real) { return real.Receive(request_context, sges); });
}

Status QueuePair::Send(void* request_context, std::span<const Sge> sges, std::uint32_t flags) {
  return Post(impl_, [&](provider::QueuePair& real) { return real.Send(request_context, sges, flags); });
}

Status QueuePair::SendAndInvalidate(void* request_context, std::span<const Sge> sges,
                                    std::uint32_t remote_token, std::uint32_t flags) {
  return Post(impl_, [&](provider::QueuePair& real) {
    return real.SendAndInvalidate(request_context, sges, flags, remote_token);
  });
}

Status QueuePair::Write(void* request_context, std::span<const Sge> sges, std::uint64_t remote_address,
                        std::uint32_t remote_token, std::uint32_t flags) {
  return Post(impl_, [&](provider::QueuePair& real) {
    return real.Write(request_context, sges, remote_address, remote_token, flags);
  });
}

Status QueuePair::Read(void* request_context, std::span<const Sge> sges, std::uint64_t remote_address,
                       std::uint32_t remote_token, std::uint32_t flags) {
  return Post(impl_, [&](provider::QueuePair& real) {
    return real.Read(request_context, sges, remote_address, remote_token, flags);
  });
}

Status QueuePair::BindWindow(void* request_context, MemoryRegion& region, MemoryWindow& window, void* address,
                             std::size_t length, std::uint32_t flags) {
  if (!region.impl_) return client::InvalidHandle("the memory region");
  if (!window.impl_) return client::InvalidHandle("the memory window");
  return Post(impl_, [&](provider::QueuePair& real) {
    return real.BindWindow(request_context, *region.impl_, *window.impl_, address, length, flags);
  });
}

Status QueuePair::Invalidate(void* request_context, MemoryWindow& window, std::uint32_t flags) {
  if (!window.impl_) return client::InvalidHandle("the memory window");
  return Post(impl_, [&](provider::QueuePair& real) {
    return real.Invalidate(request_context, *window.impl_, flags);
  });
}

Status QueuePair::Flush() {
  return Post(impl_, [](provider::QueuePair& real) { return real.Flush(); });
}

Status QueuePair::Close(Request* request) {
  return impl_ ? impl_->Close(request, false, true) : client::InvalidHandle("the queue pair");
}

Status QueuePair::NdkClose(Request* request) {
  return impl_ ? impl_->Close(request, true, true) : client::InvalidHandle("the queue pair");
}

}  // namespace nd
