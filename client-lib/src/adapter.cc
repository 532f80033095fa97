// SPDX-License-Identifier: Apache-2.0
// An open adapter: its properties, the objects that the broker creates for it, and its close.
#include "nd/adapter.h"

#include <utility>

#include "client-lib/src/adapter_impl.h"
#include "client-lib/src/connector_impl.h"
#include "client-lib/src/listener_impl.h"
#include "client-lib/src/open.h"
#include "client-lib/src/queue_impl.h"
#include "client-lib/src/queue_pair_impl.h"

namespace nd {

using client::InvalidHandle;
using client::MakeHandle;
using client::Reply;
using client::Session;

Result<std::shared_ptr<Session>> client::OpenSession(const OpenOptions& options,
                                                     const client::Environment& environment,
                                                     bool open_adapter) {
  client::SessionOptions session;
  session.connect = environment.connect;
  session.application = options.application;
  session.open_adapter = open_adapter;
  session.adapter = options.adapter;
  session.local = options.local;
  session.reconnect = options.reconnect;
  if (environment.first_backoff != Duration::zero()) session.first_backoff = environment.first_backoff;
  return Session::Open(std::move(session));
}

Result<Adapter> client::OpenAdapter(const OpenOptions& options, const Environment& environment) {
  auto session = OpenSession(options, environment, true);
  if (!session.ok()) return session.status();
  auto use = std::make_shared<SessionUse>(*session);  // Ends the session on every error below.
  auto device = environment.open_device((*session)->info());
  if (!device.ok()) return device.status();
  auto impl = std::make_shared<Adapter::Impl>();
  impl->session = *session;
  impl->device = client::LeakInChild(std::move(device).value());
  impl->use = use;
  return Adapter(MakeHandle(std::move(impl), std::move(use)));
}

Status Adapter::Impl::Check() const {
  if (closed || session->in_child()) return InvalidHandle("the adapter");
  return {};
}

template <typename Op>
Result<Reply> Adapter::Impl::Create(Op op, Session::Life* life) {
  if (Status status = Check(); !status.ok()) return status;
  const Session::Life own = session->adapter();
  op.adapter = own.handle;
  auto reply = session->Call(std::move(op), own.epoch);
  if (reply.ok()) *life = {reply->handle, own.epoch};
  return reply;
}

Adapter::Adapter(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}

const AdapterInfo& Adapter::info() const {
  static const AdapterInfo* const none = new AdapterInfo;
  return impl_ ? impl_->session->info() : *none;
}

Result<Address> Adapter::ResolveAddress(const Address& remote) const {
  if (!impl_) return InvalidHandle("the adapter");
  if (Status status = impl_->Check(); !status.ok()) return status;
  const Session::Life own = impl_->session->adapter();
  auto reply = impl_->session->Call(session::ResolveAddressOp{own.handle, remote}, own.epoch);
  if (!reply.ok()) return reply.status();
  return reply->address;
}

Status Adapter::CheckAddress(const Address& local) const {
  if (!impl_) return InvalidHandle("the adapter");
  if (Status status = impl_->Check(); !status.ok()) return status;
  const Session::Life own = impl_->session->adapter();
  return impl_->session->Perform(session::CheckAddressOp{own.handle, local}, own.epoch, nullptr);
}

Result<Connector> Adapter::CreateConnector() {
  if (!impl_) return InvalidHandle("the adapter");
  Session::Life life;
  auto reply = impl_->Create(session::CreateConnectorOp{}, &life);
  if (!reply.ok()) return reply.status();
  return Connector(
      MakeHandle(Connector::Impl::Make(impl_->shared_from_this(), life, false), impl_->use.lock()));
}

Result<Listener> Adapter::CreateListener() {
  if (!impl_) return InvalidHandle("the adapter");
  Session::Life life;
  auto reply = impl_->Create(session::CreateListenerOp{}, &life);
  if (!reply.ok()) return reply.status();
  return Listener(MakeHandle(Listener::Impl::Make(impl_->shared_from_this(), life), impl_->use.lock()));
}

Result<Listener> Adapter::NdkListen(const Address& local, std::function<void(Connector)> on_connect) {
  if (!on_connect) return Status(StatusCode::kInvalidParameter2, "no function to deliver connections to");
  auto listener = CreateListener();
  if (!listener.ok()) return listener;
  if (Status status = listener->impl()->NdkListen(local, std::move(on_connect)); !status.ok()) return status;
  return listener;
}

Result<SharedEndpoint> Adapter::CreateSharedEndpoint(const Address& local) {
  if (!impl_) return InvalidHandle("the adapter");
  Session::Life life;
  auto reply = impl_->Create(session::CreateSharedEndpointOp{{}, local}, &life);
  if (!reply.ok()) return reply.status();
  const Address bound = reply->address.well_formed() ? reply->address : local;
  return SharedEndpoint(
      MakeHandle(SharedEndpoint::Impl::Make(impl_->shared_from_this(), life, bound), impl_->use.lock()));
}

int Adapter::completion_handle() const {
  return impl_ ? impl_->session->port().handle() : -1;
}

Request* Adapter::PollRequest() {
  return impl_ && !impl_->session->in_child() ? impl_->session->port().Pop() : nullptr;
}

bool Adapter::connected() const {
  return impl_ && impl_->session->connected();
}

void Adapter::SetSessionCallback(std::function<void(bool connected)> callback) {
  if (impl_ && !impl_->session->in_child()) impl_->session->SetCallback(std::move(callback));
}

Status Adapter::Close() {
  if (!impl_ || impl_->session->in_child()) return InvalidHandle("the adapter");
  if (impl_->session->OnOwnThread()) {
    return {StatusCode::kInvalidDeviceState,
            "an adapter cannot be closed from a callback, because its Close waits "
            "for callbacks; close it from another thread"};
  }
  if (impl_->closed.exchange(true)) return InvalidHandle("the adapter");
  impl_->session->CloseAll();
  std::lock_guard lock(impl_->mutex);
  for (const auto& weak : impl_->regions) {
    if (auto region = weak.lock()) static_cast<void>(region->Deregister());
  }
  impl_->regions.clear();
  return {};
}

}  // namespace nd
