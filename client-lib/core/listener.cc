// SPDX-License-Identifier: Apache-2.0
// Listeners of both dialects: requests are fetched one by one or delivered to a function.
#include <algorithm>
#include <utility>
#include <vector>

#include "client-lib/core/connector.h"
#include "client-lib/core/endpoint.h"

namespace nd::client {

std::shared_ptr<LocalListener> LocalListener::Make(std::shared_ptr<LocalAdapter> adapter,
                                                   BrokerSession::Life life) {
  auto made = std::make_shared<LocalListener>(std::move(adapter), life);
  made->adapter->session->AddLive(made);
  made->adapter->session->Register(life.handle, made);
  return made;
}

void LocalListener::OnClosed() {
  OnConnect former;  // Destroyed outside the lock.
  std::lock_guard lock(mutex_);
  former.swap(on_connect_);
  if (former) adapter->session->RemoveEventListener();
}

void LocalListener::OnConnectEvent(session::Handle handle, std::uint32_t epoch) {
  auto made = LocalConnector::Make(adapter, {handle, epoch}, true);
  OnConnect on_connect;
  {
    std::lock_guard lock(mutex_);
    on_connect = on_connect_;
  }
  if (!on_connect || !usable()) return made->BeginClose();
  auto connector = adapter->HandleOf(made);
  if (!connector) return made->BeginClose();
  // If the callback does not keep the connector, its close rejects the request.
  adapter->session->dispatcher().Post(
      [on_connect = std::move(on_connect), connector = std::move(connector)]() mutable {
        on_connect(std::move(connector));
      });
}

Status LocalListener::NdkListen(const Address& local, OnConnect on_connect) {
  {
    std::lock_guard lock(mutex_);
    if (!on_connect_ && on_connect) adapter->session->AddEventListener();
    if (on_connect_ && !on_connect) adapter->session->RemoveEventListener();
    on_connect_ = std::move(on_connect);
  }
  const BrokerSession::Life at = life();
  Status status = adapter->session->Perform(session::ListenOp{at.handle, 0, local, true}, at.epoch, {},
                                            [this](Reply& reply) {
                                              std::lock_guard lock(mutex_);
                                              if (reply.status.ok()) {
                                                local_ = reply.address;
                                                backlog_ = 0;
                                              }
                                              return reply.status;
                                            });
  return status.ok() ? AwaitListening() : status;
}

void LocalListener::OnSessionBack(const std::function<void()>& done) {
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

Address LocalListener::local() {
  std::lock_guard lock(mutex_);
  return local_.well_formed() && !local_.unspecified() && local_.port() != 0 ? local_ : Address();
}

Status LocalListener::Bind(const Address& local) {
  const BrokerSession::Life at = life();
  return adapter->session->Perform(session::BindOp{at.handle, local}, at.epoch, {}, [this](Reply& reply) {
    std::lock_guard lock(mutex_);
    if (reply.status.ok()) local_ = reply.address;
    return reply.status;
  });
}

Status LocalListener::Listen(std::uint32_t backlog) {
  const BrokerSession::Life at = life();
  Status status = adapter->session->Perform(session::ListenOp{at.handle, backlog}, at.epoch, {},
                                            [this, backlog](Reply& reply) {
                                              std::lock_guard lock(mutex_);
                                              if (reply.status.ok()) backlog_ = backlog;
                                              return reply.status;
                                            });
  return status.ok() ? AwaitListening() : status;
}

Status LocalListener::AwaitListening() {
  Address local;
  {
    std::lock_guard lock(mutex_);
    local = local_;
  }
  return adapter->AwaitListening(local);
}

Status LocalListener::ControlConnectEvents(bool pause) {
  const BrokerSession::Life at = life();
  return adapter->session->Perform(session::ControlConnectEventsOp{at.handle, pause}, at.epoch, {},
                                   [this, pause](Reply& reply) {
                                     std::lock_guard lock(mutex_);
                                     if (reply.status.ok()) paused_ = pause;
                                     return reply.status;
                                   });
}

Status LocalListener::GetConnectionRequest(LocalConnector* connector, const Caller& caller) {
  if (!Valid(connector)) return InvalidHandle(LocalConnector::kWhat);
  if (connector->adapter != adapter) {
    return {StatusCode::kInvalidParameter1, "the connector was made from another adapter than the listener"};
  }
  const auto born = connector->life();
  const BrokerSession::Life at = life();
  // The objects belong to different sessions, so one of them ended with the former broker.
  return adapter->session->Perform(session::GetConnectionRequestOp{at.handle, born.handle},
                                   std::min(born.epoch, at.epoch), caller,
                                   [connector = connector->shared_from_this(), own = local()](Reply& reply) {
                                     if (reply.status.ok()) connector->BecomePassive(own, reply);
                                     return reply.status;
                                   });
}

Status LocalListener::Cancel() {
  const BrokerSession::Life at = life();
  Status status = adapter->session->Perform(session::CancelOp{at.handle}, at.epoch, {});
  return IsUnreachable(status) ? Status() : status;
}

}  // namespace nd::client
