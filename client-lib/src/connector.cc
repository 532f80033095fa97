// SPDX-License-Identifier: Apache-2.0
// The public class of connections.
#include "nd/connector.h"

#include <utility>

#include "client-lib/core/buffer_rules.h"
#include "client-lib/src/face.h"

namespace nd {

using client::CallerOf;
using client::Core;
using client::LocalConnector;
using client::Use;
using client::UseAny;

namespace {

client::ConnectArguments Arguments(const ConnectOptions& options) {
  return {options.limits, options.private_data};
}

}  // namespace

Connector::Connector(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}

Status Connector::Bind(const Address& local) {
  return Use(Core(impl_), [&](LocalConnector& connector) { return connector.Bind(local); });
}

Status Connector::Connect(QueuePair& queue_pair, const Address& remote, const ConnectOptions& options,
                          Request* request) {
  return Use(Core(impl_), [&](LocalConnector& connector) {
    return connector.Connect(Core(queue_pair.impl()), remote, Arguments(options), CallerOf(request));
  });
}

Status Connector::NdkConnect(QueuePair& queue_pair, const Address& source, const Address& remote,
                             const ConnectOptions& options, Request* request) {
  return Use(Core(impl_), [&](LocalConnector& connector) {
    return connector.ConnectFrom(Core(queue_pair.impl()), source, remote, Arguments(options),
                                 CallerOf(request));
  });
}

Status Connector::NdkConnectWithSharedEndpoint(QueuePair& queue_pair, SharedEndpoint& endpoint,
                                               const Address& remote, const ConnectOptions& options,
                                               Request* request) {
  return Use(Core(impl_), [&](LocalConnector& connector) {
    return connector.ConnectFrom(Core(queue_pair.impl()), Core(endpoint.impl()), remote, Arguments(options),
                                 CallerOf(request));
  });
}

Status Connector::CompleteConnect(Request* request) {
  return Use(Core(impl_),
             [&](LocalConnector& connector) { return connector.CompleteConnect(CallerOf(request)); });
}

Status Connector::Accept(QueuePair& queue_pair, const ConnectOptions& options, Request* request) {
  return Use(Core(impl_), [&](LocalConnector& connector) {
    return connector.Accept(Core(queue_pair.impl()), Arguments(options), CallerOf(request));
  });
}

Status Connector::Reject(PrivateData private_data) {
  return Use(Core(impl_), [&](LocalConnector& connector) { return connector.Reject(private_data); });
}

Status Connector::GetReadLimits(std::uint32_t* inbound, std::uint32_t* outbound) const {
  auto limits = Use(Core(impl_), [](LocalConnector& connector) { return connector.GetReadLimits(); });
  if (!limits.ok()) return limits.status();
  if (inbound != nullptr) *inbound = limits->inbound;
  if (outbound != nullptr) *outbound = limits->outbound;
  return {};
}

Status Connector::GetPrivateData(void* buffer, std::size_t* length) const {
  auto data = GetPrivateData();
  return data.ok() ? client::CopyPrivateData(*data, buffer, length, false) : data.status();
}

Result<std::vector<std::byte>> Connector::GetPrivateData() const {
  auto data = Use(Core(impl_), [](LocalConnector& connector) { return connector.GetPrivateData(); });
  if (!data.ok()) return data.status();
  const auto bytes = std::as_bytes(std::span(*data));
  return std::vector<std::byte>(bytes.begin(), bytes.end());
}

Status Connector::NdkGetConnectionData(std::uint32_t* inbound, std::uint32_t* outbound, void* buffer,
                                       std::size_t* length) const {
  if (Status status = GetReadLimits(inbound, outbound); !status.ok()) return status;
  auto data = GetPrivateData();
  return data.ok() ? client::CopyPrivateData(*data, buffer, length, true) : data.status();
}

Result<Address> Connector::GetLocalAddress() const {
  return Use(Core(impl_), [](LocalConnector& connector) { return connector.GetLocalAddress(); });
}

Result<Address> Connector::GetPeerAddress() const {
  return Use(Core(impl_), [](LocalConnector& connector) { return connector.GetPeerAddress(); });
}

Status Connector::GetLocalAddress(void* sockaddr_buffer, std::size_t* length) const {
  auto address = GetLocalAddress();
  return address.ok() ? client::CopyAddress(*address, sockaddr_buffer, length, false) : address.status();
}

Status Connector::GetPeerAddress(void* sockaddr_buffer, std::size_t* length) const {
  auto address = GetPeerAddress();
  return address.ok() ? client::CopyAddress(*address, sockaddr_buffer, length, false) : address.status();
}

Status Connector::NotifyDisconnect(Request* request) {
  return Use(Core(impl_),
             [&](LocalConnector& connector) { return connector.NotifyDisconnect(CallerOf(request)); });
}

void Connector::SetDisconnectCallback(std::function<void(DisconnectReason)> callback) {
  if (client::Valid(Core(impl_))) Core(impl_)->SetDisconnectCallback(std::move(callback));
}

DisconnectReason Connector::disconnect_reason() const {
  return impl_ ? Core(impl_)->reason() : DisconnectReason::kUnknown;
}

Status Connector::Disconnect(Request* request) {
  return Use(Core(impl_), [&](LocalConnector& connector) { return connector.Disconnect(CallerOf(request)); });
}

Status Connector::Cancel() {
  return Use(Core(impl_), [](LocalConnector& connector) { return connector.Cancel(); });
}

Status Connector::Close(Request* request) {
  return UseAny(Core(impl_), [&](LocalConnector& connector) { return connector.Close(CallerOf(request)); });
}

}  // namespace nd
