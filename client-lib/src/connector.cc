// SPDX-License-Identifier: Apache-2.0
// The public classes of connections: check the handle, submit the operation, fill the buffers of the caller.
#include "nd/connector.h"

#include <utility>

#include "client-lib/src/connector_impl.h"
#include "client-lib/src/listener_impl.h"

namespace nd {

using client::InvalidHandle;
using client::Reply;

namespace {

constexpr char kWhat[] = "the connector";

bool Usable(const std::shared_ptr<Connector::Impl>& impl) {
  return impl && impl->usable();
}

}  // namespace

Connector::Connector(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}

Status Connector::Bind(const Address& local) {
  if (!Usable(impl_)) return InvalidHandle(kWhat);
  const auto life = impl_->life();
  return impl_->adapter->session->Perform(session::BindOp{life.handle, local}, life.epoch, nullptr,
                                          [impl = impl_->shared_from_this(), local](Reply& reply) {
                                            if (reply.status.ok()) {
                                              impl->SetAddresses(&local, nullptr);
                                              impl->SetAddresses(&reply.address, nullptr);
                                            }
                                            return reply.status;
                                          });
}

Status Connector::Connect(QueuePair& queue_pair, const Address& remote, const ConnectOptions& options,
                          Request* request) {
  if (!Usable(impl_)) return InvalidHandle(kWhat);
  return impl_->Connect(queue_pair, {}, remote, options, request);
}

Status Connector::NdkConnect(QueuePair& queue_pair, const Address& source, const Address& remote,
                             const ConnectOptions& options, Request* request) {
  if (!Usable(impl_)) return InvalidHandle(kWhat);
  session::ConnectOp op;
  op.source = source;
  return impl_->Connect(queue_pair, std::move(op), remote, options, request);
}

Status Connector::NdkConnectWithSharedEndpoint(QueuePair& queue_pair, SharedEndpoint& endpoint,
                                               const Address& remote, const ConnectOptions& options,
                                               Request* request) {
  if (!Usable(impl_)) return InvalidHandle(kWhat);
  const auto& shared = endpoint.impl();
  if (!shared || !shared->usable()) return InvalidHandle("the shared endpoint");
  if (shared->adapter != impl_->adapter) {
    return {StatusCode::kInvalidParameter2,
            "the shared endpoint was made from another adapter than the connector"};
  }
  session::ConnectOp op;
  op.shared_endpoint = shared->life().handle;
  Status status = impl_->Connect(queue_pair, std::move(op), remote, options, request);
  if (status.ok() || status.pending()) impl_->SetAddresses(&shared->local, nullptr);
  return status;
}

Status Connector::CompleteConnect(Request* request) {
  return Usable(impl_) ? impl_->CompleteConnect(request) : InvalidHandle(kWhat);
}

Status Connector::Accept(QueuePair& queue_pair, const ConnectOptions& options, Request* request) {
  return Usable(impl_) ? impl_->Accept(queue_pair, options, request) : InvalidHandle(kWhat);
}

Status Connector::Reject(PrivateData private_data) {
  return Usable(impl_) ? impl_->Reject(private_data) : InvalidHandle(kWhat);
}

Status Connector::GetReadLimits(std::uint32_t* inbound, std::uint32_t* outbound) const {
  if (!Usable(impl_)) return InvalidHandle(kWhat);
  auto reply = impl_->Ask<session::GetReadLimitsOp>();
  if (!reply.ok()) return reply.status();
  if (inbound != nullptr) *inbound = reply->limits.inbound;
  if (outbound != nullptr) *outbound = reply->limits.outbound;
  return {};
}

Status Connector::GetPrivateData(void* buffer, std::size_t* length) const {
  if (!Usable(impl_)) return InvalidHandle(kWhat);
  auto reply = impl_->Ask<session::GetPrivateDataOp>();
  if (!reply.ok()) return reply.status();
  return client::CopyPrivateData(std::as_bytes(std::span(reply->private_data)), buffer, length, false);
}

Result<std::vector<std::byte>> Connector::GetPrivateData() const {
  if (!Usable(impl_)) return InvalidHandle(kWhat);
  auto reply = impl_->Ask<session::GetPrivateDataOp>();
  if (!reply.ok()) return reply.status();
  const auto bytes = std::as_bytes(std::span(reply->private_data));
  return std::vector<std::byte>(bytes.begin(), bytes.end());
}

Status Connector::NdkGetConnectionData(std::uint32_t* inbound, std::uint32_t* outbound, void* buffer,
                                       std::size_t* length) const {
  if (Status status = GetReadLimits(inbound, outbound); !status.ok()) return status;
  auto reply = impl_->Ask<session::GetPrivateDataOp>();
  if (!reply.ok()) return reply.status();
  return client::CopyPrivateData(std::as_bytes(std::span(reply->private_data)), buffer, length, true);
}

Result<Address> Connector::GetLocalAddress() const {
  if (!Usable(impl_)) return InvalidHandle(kWhat);
  auto reply = impl_->AskLocalAddress();
  if (!reply.ok()) return reply.status();
  return reply->address;
}

Result<Address> Connector::GetPeerAddress() const {
  if (!Usable(impl_)) return InvalidHandle(kWhat);
  auto reply = impl_->AskPeerAddress();
  if (!reply.ok()) return reply.status();
  return reply->address;
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
  return Usable(impl_) ? impl_->NotifyDisconnect(request) : InvalidHandle(kWhat);
}

void Connector::SetDisconnectCallback(std::function<void(DisconnectReason)> callback) {
  if (Usable(impl_)) impl_->SetCallback(std::move(callback));
}

DisconnectReason Connector::disconnect_reason() const {
  return impl_ && !impl_->adapter->session->in_child() ? impl_->reason() : DisconnectReason::kUnknown;
}

Status Connector::Disconnect(Request* request) {
  return Usable(impl_) ? impl_->Disconnect(request) : InvalidHandle(kWhat);
}

Status Connector::Cancel() {
  return Usable(impl_) ? impl_->Cancel() : InvalidHandle(kWhat);
}

Status Connector::Close(Request* request) {
  return impl_ ? impl_->Close(request, true) : InvalidHandle(kWhat);
}

}  // namespace nd
