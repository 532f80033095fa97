// SPDX-License-Identifier: Apache-2.0
// The properties of an open adapter, the objects that the broker creates for it, and its close.
#include "client-lib/core/adapter.h"

#include <utility>

#include "client-lib/core/connector.h"
#include "client-lib/core/endpoint.h"
#include "client-lib/core/open.h"

namespace nd::client {
namespace {

Result<std::shared_ptr<BrokerSession>> OpenSession(SessionOptions options, const Environment& environment) {
  options.connect = environment.connect;
  if (environment.first_backoff != Duration::zero()) options.first_backoff = environment.first_backoff;
  return BrokerSession::Open(std::move(options));
}

}  // namespace

Result<AppHandle<LocalAdapter>> OpenAdapter(SessionOptions options, const Environment& environment) {
  options.open_adapter = true;
  auto session = OpenSession(std::move(options), environment);
  if (!session.ok()) return session.status();
  auto use = std::make_shared<SessionUse>(*session);  // Ends the session on every error below.
  auto device = environment.open_device((*session)->info());
  if (!device.ok()) return device.status();
  if (Status met = (*session)->Introduce(*device); !met.ok()) return met;
  auto adapter = std::make_shared<LocalAdapter>(*session, std::move(device).value(), use);
  return MakeHandle(std::move(adapter), std::move(use));
}

Result<std::vector<AdapterInfo>> ListAdapters(SessionOptions options, const Environment& environment) {
  options.open_adapter = false;
  auto session = OpenSession(std::move(options), environment);
  if (!session.ok()) return session.status();
  auto reply = (*session)->Call(session::ListAdaptersOp{}, 0);
  (*session)->CloseAll();
  if (!reply.ok()) return reply.status();
  return std::move(reply->adapters);
}

LocalAdapter::LocalAdapter(std::shared_ptr<BrokerSession> opened, std::shared_ptr<provider::Device> device,
                           const std::shared_ptr<SessionUse>& use)
    : session(std::move(opened)), device_(LeakInChild(std::move(device))), use_(use) {}

template <typename Op>
Result<Reply> LocalAdapter::Create(Op op, BrokerSession::Life* life) {
  const BrokerSession::Life own = session->adapter();
  op.adapter = own.handle;
  auto reply = session->Call(std::move(op), own.epoch);
  if (reply.ok()) *life = {reply->handle, own.epoch};
  return reply;
}

Result<Address> LocalAdapter::ResolveAddress(const Address& remote) {
  const BrokerSession::Life own = session->adapter();
  auto reply = session->Call(session::ResolveAddressOp{own.handle, remote}, own.epoch);
  if (!reply.ok()) return reply.status();
  return reply->address;
}

Status LocalAdapter::CheckAddress(const Address& local) {
  const BrokerSession::Life own = session->adapter();
  return session->Perform(session::CheckAddressOp{own.handle, local}, own.epoch, {});
}

Result<AppHandle<LocalConnector>> LocalAdapter::CreateConnector() {
  const BrokerSession::Life own = session->adapter();
  const auto spares = session->spares(own.epoch);
  if (const auto spare = spares ? spares->TakeConnector() : std::nullopt) {
    auto made = LocalConnector::MakeAhead(shared_from_this(), own, spare->number);
    if (!made.ok()) return made.status();
    return HandleOf(*std::move(made));
  }
  BrokerSession::Life life;
  auto reply = Create(session::CreateConnectorOp{}, &life);
  if (!reply.ok()) return reply.status();
  return HandleOf(LocalConnector::Make(shared_from_this(), life, false));
}

Result<AppHandle<LocalListener>> LocalAdapter::CreateListener() {
  BrokerSession::Life life;
  auto reply = Create(session::CreateListenerOp{}, &life);
  if (!reply.ok()) return reply.status();
  return HandleOf(LocalListener::Make(shared_from_this(), life));
}

Result<AppHandle<LocalListener>> LocalAdapter::NdkListen(
    const Address& local, std::function<void(AppHandle<LocalConnector>)> on_connect) {
  auto listener = CreateListener();
  if (!listener.ok()) return listener;
  if (Status status = (*listener)->NdkListen(local, std::move(on_connect)); !status.ok()) return status;
  return listener;
}

Result<AppHandle<LocalSharedEndpoint>> LocalAdapter::CreateSharedEndpoint(const Address& local) {
  BrokerSession::Life life;
  auto reply = Create(session::CreateSharedEndpointOp{{}, local}, &life);
  if (!reply.ok()) return reply.status();
  const Address bound = reply->address.well_formed() ? reply->address : local;
  return HandleOf(LocalSharedEndpoint::Make(shared_from_this(), life, bound));
}

void* LocalAdapter::PollCall() {
  return session->in_child() ? nullptr : session->port().Pop();
}

void LocalAdapter::SetSessionCallback(std::function<void(bool connected)> callback) {
  if (!session->in_child()) session->SetCallback(std::move(callback));
}

void LocalAdapter::SetAdapterCallback(std::function<void(AdapterChange)> callback) {
  if (!session->in_child()) session->SetAdapterCallback(std::move(callback));
}

Status LocalAdapter::Close() {
  if (session->in_child()) return InvalidHandle(kWhat);
  if (session->OnOwnThread()) {
    return {StatusCode::kInvalidDeviceState,
            "an adapter cannot be closed from a callback, because its Close waits "
            "for callbacks; close it from another thread"};
  }
  if (closed_.exchange(true)) return InvalidHandle(kWhat);
  session->CloseAll();
  std::lock_guard lock(mutex_);
  for (const auto& weak : regions_) {
    if (auto region = weak.lock()) static_cast<void>(region->Deregister());
  }
  regions_.clear();
  return {};
}

}  // namespace nd::client
