// SPDX-License-Identifier: Apache-2.0
// The public classes of listeners and shared endpoints.
#include <utility>

#include "client-lib/core/buffer_rules.h"
#include "client-lib/src/face.h"
#include "nd/connector.h"

namespace nd {

using client::CallerOf;
using client::Core;
using client::LocalListener;
using client::LocalSharedEndpoint;
using client::Use;
using client::UseAny;

Listener::Listener(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}

Status Listener::Bind(const Address& local) {
  return Use(Core(impl_), [&](LocalListener& listener) { return listener.Bind(local); });
}

Status Listener::Listen(std::uint32_t backlog) {
  return Use(Core(impl_), [&](LocalListener& listener) { return listener.Listen(backlog); });
}

Result<Address> Listener::GetLocalAddress() const {
  return Use(Core(impl_), [](LocalListener& listener) { return listener.GetLocalAddress(); });
}

Status Listener::GetLocalAddress(void* sockaddr_buffer, std::size_t* length) const {
  auto address = GetLocalAddress();
  return address.ok() ? client::CopyAddress(*address, sockaddr_buffer, length, false) : address.status();
}

Status Listener::GetConnectionRequest(Connector& connector, Request* request) {
  return Use(Core(impl_), [&](LocalListener& listener) {
    return listener.GetConnectionRequest(Core(connector.impl()), CallerOf(request));
  });
}

Status Listener::ControlConnectEvents(bool pause) {
  return Use(Core(impl_), [&](LocalListener& listener) { return listener.ControlConnectEvents(pause); });
}

Status Listener::Cancel() {
  return Use(Core(impl_), [](LocalListener& listener) { return listener.Cancel(); });
}

Status Listener::Close(Request* request) {
  return UseAny(Core(impl_), [&](LocalListener& listener) { return listener.Close(CallerOf(request)); });
}

SharedEndpoint::SharedEndpoint(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}

Result<Address> SharedEndpoint::GetLocalAddress() const {
  return Use(Core(impl_), [](LocalSharedEndpoint& endpoint) { return endpoint.GetLocalAddress(); });
}

Status SharedEndpoint::GetLocalAddress(void* sockaddr_buffer, std::size_t* length) const {
  auto address = GetLocalAddress();
  return address.ok() ? client::CopyAddress(*address, sockaddr_buffer, length, true) : address.status();
}

Status SharedEndpoint::Close(Request* request) {
  return UseAny(Core(impl_),
                [&](LocalSharedEndpoint& endpoint) { return endpoint.Close(CallerOf(request)); });
}

}  // namespace nd
