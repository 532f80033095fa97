// SPDX-License-Identifier: Apache-2.0
// Listeners of both dialects: requests are fetched one by one or delivered to a function.
#include <algorithm>
#include <utility>
#include <vector>

#include "client-lib/src/connector_impl.h"
#include "client-lib/src/listener_impl.h"
#include "nd/connector.h"

namespace nd {

using client::InvalidHandle;
using client::Reply;

namespace {

constexpr char kWhat[] = "the listener";

bool Usable(const std::shared_ptr<Listener::Impl>& impl) {
  return impl && impl->usable();
}

}  // namespace

Result<Address> client::Endpoint::GetLocalAddress() {
  const Session::Life at = life();
  auto reply = adapter->session->Call(session::GetLocalAddressOp{at.handle}, at.epoch);
  if (!reply.ok()) return reply.status();
  return reply->address;
}

Status client::Endpoint::Close(Request* request, bool wait) {
  auto begun = adapter->session->Begin(request);
  if (!begun.ok()) return begun.status();
  const std::shared_ptr<Request::State> state = *begun;
  if (closed_.exchange(true)) {
    state->Abort();
    return InvalidHandle("the listener or shared endpoint");
  }
  const bool direct = request == nullptr && wait && adapter->session->dispatcher().OnThread();
  auto finish = [self = shared_from_this(), state, direct] {
    self->OnClosed();
    self->adapter->session->Unregister(self->life().handle);
    self->adapter->session->RemoveLive(self);
    direct ? self->adapter->session->Finish(state, {}) : self->adapter->session->FinishClose(state, {});
  };
  const Session::Life at = life();
  Status sent =
      adapter->session->Submit(session::CloseOp{at.handle}, at.epoch, [finish](const Reply&) { finish(); });
  // The broker is away, and the object ended with it.
  if (!sent.ok()) finish();
  return wait ? Session::Outcome(request, state) : Status(StatusCode::kPending);
}

// A return to a new broker in progress.
struct client::Endpoint::Return {
  std::vector<Step> steps;
  std::size_t next = 0;
  Session::Life life;
  std::function<void()> done;
};

void client::Endpoint::ComeBack(std::vector<Step> steps, std::function<void()> done) {
  auto back = std::make_shared<Return>();
  back->steps = std::move(steps);
  back->life = adapter->session->adapter();
  back->done = std::move(done);
  NextStep(back);
}

void client::Endpoint::NextStep(const std::shared_ptr<Return>& back) {
  if (back->next == back->steps.size()) {
    Adopt(*back);
    return back->done();
  }
  const bool first = back->next == 0;
  session::Operation op = back->steps[back->next++](back->life.handle);
  const auto then = [self = shared_from_this(), back, first](const Reply& reply) {
    if (first && reply.status.ok()) back->life.handle = reply.handle;
    if (reply.status.ok()) return self->NextStep(back);
    // Its address is taken by now, or the policy has changed.
    if (!first) {
      static_cast<void>(self->adapter->session->Submit(
          session::CloseOp{back->life.handle}, back->life.epoch, [](const Reply&) {},
          Session::Sender::kKeeper));
    }
    back->done();
  };
  Status sent = adapter->session->Submit(std::move(op), back->life.epoch, then, Session::Sender::kKeeper);
  if (!sent.ok()) back->done();
}

void client::Endpoint::Adopt(const Return& back) {
  {
    std::lock_guard lock(life_mutex_);
    life_ = back.life;
  }
  adapter->session->Register(back.life.handle, shared_from_this());
  if (!closed_) return;
  // Closed in the meantime, when it had no object at the broker.
  adapter->session->Unregister(back.life.handle);
  static_cast<void>(adapter->session->Submit(
      session::CloseOp{back.life.handle}, back.life.epoch, [](const Reply&) {}, Session::Sender::kKeeper));
}

std::shared_ptr<Listener::Impl> Listener::Impl::Make(std::shared_ptr<Adapter::Impl> adapter,
                                                     client::Session::Life life) {
  auto made = std::make_shared<Impl>(std::move(adapter), life);
  made->adapter->session->AddLive(made);
  made->adapter->session->Register(life.handle, made);
  return made;
}

void Listener::Impl::OnClosed() {
  std::function<void(Connector)> former;  // Destroyed outside the lock.
  std::lock_guard lock(mutex_);
  former.swap(on_connect_);
}

void Listener::Impl::OnConnectEvent(session::Handle handle, std::uint32_t epoch) {
  auto made = Connector::Impl::Make(adapter, {handle, epoch}, true);
  auto use = adapter->use.lock();
  std::function<void(Connector)> on_connect;
  {
    std::lock_guard lock(mutex_);
    on_connect = on_connect_;
  }
  if (!use || !on_connect || !usable()) return made->BeginClose();
  // If the callback does not keep the connector, its close rejects the request.
  adapter->session->dispatcher().Post(
      [on_connect = std::move(on_connect),
       connector = Connector(client::MakeHandle(std::move(made), std::move(use)))]() mutable {
        on_connect(std::move(connector));
      });
}

Status Listener::Impl::NdkListen(const Address& local, std::function<void(Connector)> on_connect) {
  {
    std::lock_guard lock(mutex_);
    on_connect_ = std::move(on_connect);
  }
  const client::Session::Life at = life();
  return adapter->session->Perform(session::ListenOp{at.handle, 0, local, true}, at.epoch, nullptr,
                                   [this](Reply& reply) {
                                     std::lock_guard lock(mutex_);
                                     if (reply.status.ok()) {
                                       local_ = reply.address;
                                       backlog_ = 0;
                                     }
                                     return reply.status;
                                   });
}

void Listener::Impl::OnSessionBack(const std::function<void()>& done) {
  using session::Handle;
  std::vector<Step> steps;
  {
    std::lock_guard lock(mutex_);
    if (local_.port() != 0) {
      steps.emplace_back([](Handle at) { return session::CreateListenerOp{at}; });
      steps.emplace_back([local = local_](Handle at) { return session::BindOp{at, local}; });
    }
    if (backlog_) {
      steps.emplace_back([backlog = *backlog_, events = on_connect_ != nullptr](Handle at) {
        return session::ListenOp{at, backlog, std::nullopt, events};
      });
    }
    if (paused_) steps.emplace_back([](Handle at) { return session::ControlConnectEventsOp{at, true}; });
  }
  if (!usable() || steps.empty()) return done();  // Without an address there is nothing to restore.
  ComeBack(std::move(steps), done);
}

Address Listener::Impl::local() {
  std::lock_guard lock(mutex_);
  return local_.well_formed() && !local_.unspecified() && local_.port() != 0 ? local_ : Address();
}

Status Listener::Impl::Bind(const Address& local) {
  const client::Session::Life at = life();
  return adapter->session->Perform(session::BindOp{at.handle, local}, at.epoch, nullptr,
                                   [this](Reply& reply) {
                                     std::lock_guard lock(mutex_);
                                     if (reply.status.ok()) local_ = reply.address;
                                     return reply.status;
                                   });
}

Status Listener::Impl::Listen(std::uint32_t backlog) {
  const client::Session::Life at = life();
  return adapter->session->Perform(session::ListenOp{at.handle, backlog}, at.epoch, nullptr,
                                   [this, backlog](Reply& reply) {
                                     std::lock_guard lock(mutex_);
                                     if (reply.status.ok()) backlog_ = backlog;
                                     return reply.status;
                                   });
}

Status Listener::Impl::ControlConnectEvents(bool pause) {
  const client::Session::Life at = life();
  return adapter->session->Perform(session::ControlConnectEventsOp{at.handle, pause}, at.epoch, nullptr,
                                   [this, pause](Reply& reply) {
                                     std::lock_guard lock(mutex_);
                                     if (reply.status.ok()) paused_ = pause;
                                     return reply.status;
                                   });
}

Status Listener::Impl::GetConnectionRequest(const std::shared_ptr<Connector::Impl>& connector,
                                            Request* request) {
  if (connector->adapter != adapter) {
    return {StatusCode::kInvalidParameter1, "the connector was made from another adapter than the listener"};
  }
  const auto born = connector->life();
  const client::Session::Life at = life();
  // The two have different lives, so one of them ended with the former broker.
  return adapter->session->Perform(session::GetConnectionRequestOp{at.handle, born.handle},
                                   std::min(born.epoch, at.epoch), request,
                                   [connector, own = local()](Reply& reply) {
                                     if (reply.status.ok()) {
                                       connector->MakePassive();
                                       connector->SetAddresses(&own, &reply.address);
                                     }
                                     return reply.status;
                                   });
}

Listener::Listener(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}

Status Listener::Bind(const Address& local) {
  return Usable(impl_) ? impl_->Bind(local) : InvalidHandle(kWhat);
}

Status Listener::Listen(std::uint32_t backlog) {
  return Usable(impl_) ? impl_->Listen(backlog) : InvalidHandle(kWhat);
}

Result<Address> Listener::GetLocalAddress() const {
  if (!Usable(impl_)) return InvalidHandle(kWhat);
  return impl_->GetLocalAddress();
}

Status Listener::GetLocalAddress(void* sockaddr_buffer, std::size_t* length) const {
  auto address = GetLocalAddress();
  return address.ok() ? client::CopyAddress(*address, sockaddr_buffer, length, false) : address.status();
}

Status Listener::GetConnectionRequest(Connector& connector, Request* request) {
  if (!Usable(impl_)) return InvalidHandle(kWhat);
  const auto& target = connector.impl();
  if (!target || !target->usable()) return InvalidHandle("the connector");
  return impl_->GetConnectionRequest(target->shared_from_this(), request);
}

Status Listener::ControlConnectEvents(bool pause) {
  return Usable(impl_) ? impl_->ControlConnectEvents(pause) : InvalidHandle(kWhat);
}

Status Listener::Cancel() {
  if (!Usable(impl_)) return InvalidHandle(kWhat);
  const client::Session::Life at = impl_->life();
  Status status = impl_->adapter->session->Perform(session::CancelOp{at.handle}, at.epoch, nullptr);
  return client::IsUnreachable(status) ? Status() : status;
}

Status Listener::Close(Request* request) {
  return impl_ ? impl_->Close(request, true) : InvalidHandle(kWhat);
}

}  // namespace nd
