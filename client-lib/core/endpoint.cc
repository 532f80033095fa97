// SPDX-License-Identifier: Apache-2.0
// The address, the close and the return to a new broker, which listeners and shared endpoints have in common.
#include "client-lib/core/endpoint.h"

#include <utility>

namespace nd::client {

Result<Address> LocalEndpoint::GetLocalAddress() {
  const BrokerSession::Life at = life();
  auto reply = adapter->session->Call(session::GetLocalAddressOp{at.handle}, at.epoch);
  if (!reply.ok()) return reply.status();
  return reply->address;
}

Status LocalEndpoint::Close(const Caller& caller, bool wait) {
  auto begun = adapter->session->Begin(caller);
  if (!begun.ok()) return begun.status();
  const std::shared_ptr<CallState> state = *begun;
  if (closed_.exchange(true)) {
    state->Abort();
    return InvalidHandle("the listener or shared endpoint");
  }
  const bool direct = caller.blocks() && wait && adapter->session->dispatcher().OnThread();
  auto finish = [self = shared_from_this(), state, direct] {
    self->OnClosed();
    self->adapter->session->Unregister(self->life().handle);
    self->adapter->session->RemoveLive(self);
    direct ? self->adapter->session->Finish(state, {}) : self->adapter->session->FinishClose(state, {});
  };
  const BrokerSession::Life at = life();
  BrokerSession::Ticket ticket;
  Status sent = adapter->session->Submit(
      session::CloseOp{at.handle}, at.epoch, [finish](const Reply&) { finish(); },
      BrokerSession::Sender::kApplication, wait && caller.blocks() ? &ticket : nullptr);
  // The broker is away, and the object ended with it.
  if (!sent.ok()) finish();
  adapter->session->AwaitReply(ticket);
  return wait ? BrokerSession::Outcome(caller, state) : Status(StatusCode::kPending);
}

// The steps by which the object is made again at a new broker.
struct LocalEndpoint::Return {
  std::vector<Step> steps;
  std::size_t next = 0;
  BrokerSession::Life life;
  std::function<void()> done;
};

void LocalEndpoint::ComeBack(std::vector<Step> steps, std::function<void()> done) {
  auto back = std::make_shared<Return>();
  back->steps = std::move(steps);
  back->life = adapter->session->adapter();
  back->done = std::move(done);
  NextStep(back);
}

void LocalEndpoint::NextStep(const std::shared_ptr<Return>& back) {
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
          BrokerSession::Sender::kKeeper));
    }
    back->done();
  };
  Status sent =
      adapter->session->Submit(std::move(op), back->life.epoch, then, BrokerSession::Sender::kKeeper);
  if (!sent.ok()) back->done();
}

void LocalEndpoint::Adopt(const Return& back) {
  {
    std::lock_guard lock(life_mutex_);
    life_ = back.life;
  }
  adapter->session->Register(back.life.handle, shared_from_this());
  if (!closed_) return;
  // It was closed while it had no object at the broker.
  adapter->session->Unregister(back.life.handle);
  static_cast<void>(adapter->session->Submit(
      session::CloseOp{back.life.handle}, back.life.epoch, [](const Reply&) {},
      BrokerSession::Sender::kKeeper));
}

std::shared_ptr<LocalSharedEndpoint> LocalSharedEndpoint::Make(std::shared_ptr<LocalAdapter> adapter,
                                                               BrokerSession::Life life,
                                                               const Address& bound) {
  auto made = std::make_shared<LocalSharedEndpoint>(std::move(adapter), life, bound);
  made->adapter->session->AddLive(made);
  return made;
}

void LocalSharedEndpoint::OnSessionBack(const std::function<void()>& done) {
  if (!usable()) return done();
  ComeBack({[bound = local](session::Handle at) {
             return session::CreateSharedEndpointOp{at, bound};
           }},
           done);
}

}  // namespace nd::client
