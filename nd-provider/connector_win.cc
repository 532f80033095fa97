// SPDX-License-Identifier: Apache-2.0
#include "nd-provider/connector_win.h"

#include <cstddef>
#include <functional>

#include "base/environment.h"
#include "nd-provider/argument_rules.h"
#include "nd-provider/queue_pair_win.h"

namespace nd::spi {
namespace {

const Compatibility& Chosen() {
  static const Compatibility chosen = CompatibilityOf(EnvironmentVariable("NDBROKER_ND_COMPAT"));
  return chosen;
}
StatusCode AsOfAccept(StatusCode status) {
  return OfAccept(status, Chosen());
}
StatusCode AsOfConnect(StatusCode status) {
  return OfConnect(status, Chosen());
}

PrivateData DataOf(const void* data, ULONG length) {
  return {static_cast<const std::byte*>(data), length};
}

// Calls a getter of the library whose length is a size_t.
template <typename Getter>
HRESULT WithLength(ULONG* length, Getter getter) {
  if (length == nullptr) return Hr(StatusCode::kInvalidParameter2);
  return Guarded([&] {
    std::size_t size = *length;
    const Status status = getter(&size);
    *length = static_cast<ULONG>(size);
    return Hr(status);
  });
}

// After the library has cancelled its operations.
HRESULT AfterCancel(const Status& cancelled, PendingCalls& calls) {
  calls.TakeFinished();
  return Hr(cancelled);
}

}  // namespace

HRESULT ConnectorObject::CancelOverlappedRequests() {
  return Guarded([&] { return AfterCancel(connector.Cancel(), calls_); });
}

HRESULT ConnectorObject::Bind(const sockaddr* address, ULONG length) {
  return Guarded([&] { return Hr(connector.Bind(Address::FromSockaddr(address, length))); });
}

HRESULT ConnectorObject::Connect(IUnknown* queue_pair, const sockaddr* destination, ULONG length,
                                 ULONG inbound_read_limit, ULONG outbound_read_limit,
                                 const void* private_data, ULONG private_data_length,
                                 OVERLAPPED* overlapped) {
  return Guarded([&] {
    const auto used = Find<QueuePairObject>(queue_pair);
    if (!used) return Hr(StatusCode::kInvalidParameter1);
    const Address remote = Address::FromSockaddr(destination, length);
    const ConnectOptions options{{inbound_read_limit, outbound_read_limit},
                                 DataOf(private_data, private_data_length)};
    return Hr(calls_.Start(
        overlapped,
        [&](Request* request) { return connector.Connect(used->queue_pair, remote, options, request); },
        AsOfConnect));
  });
}

HRESULT ConnectorObject::CompleteConnect(OVERLAPPED* overlapped) {
  return Guarded([&] {
    return Hr(calls_.Start(overlapped, [&](Request* request) { return connector.CompleteConnect(request); }));
  });
}

HRESULT ConnectorObject::Accept(IUnknown* queue_pair, ULONG inbound_read_limit, ULONG outbound_read_limit,
                                const void* private_data, ULONG private_data_length, OVERLAPPED* overlapped) {
  return Guarded([&] {
    const auto used = Find<QueuePairObject>(queue_pair);
    if (!used) return Hr(StatusCode::kInvalidParameter1);
    const ConnectOptions options{{inbound_read_limit, outbound_read_limit},
                                 DataOf(private_data, private_data_length)};
    return Hr(calls_.Start(
        overlapped, [&](Request* request) { return connector.Accept(used->queue_pair, options, request); },
        AsOfAccept));
  });
}

HRESULT ConnectorObject::Reject(const void* private_data, ULONG private_data_length) {
  return Guarded([&] { return Hr(connector.Reject(DataOf(private_data, private_data_length))); });
}

HRESULT ConnectorObject::GetReadLimits(ULONG* inbound, ULONG* outbound) {
  return Guarded([&] {
    std::uint32_t in = 0, out = 0;
    const Status status = connector.GetReadLimits(&in, &out);
    if (!status.ok()) return Hr(status);
    if (inbound != nullptr) *inbound = in;
    if (outbound != nullptr) *outbound = out;
    return Hr(status);
  });
}

HRESULT ConnectorObject::GetPrivateData(void* private_data, ULONG* length) {
  return WithLength(length, [&](std::size_t* size) { return connector.GetPrivateData(private_data, size); });
}

HRESULT ConnectorObject::GetLocalAddress(sockaddr* address, ULONG* length) {
  return WithLength(length, [&](std::size_t* size) { return connector.GetLocalAddress(address, size); });
}

HRESULT ConnectorObject::GetPeerAddress(sockaddr* address, ULONG* length) {
  return WithLength(length, [&](std::size_t* size) { return connector.GetPeerAddress(address, size); });
}

HRESULT ConnectorObject::NotifyDisconnect(OVERLAPPED* overlapped) {
  return Guarded([&] {
    return Hr(
        calls_.Start(overlapped, [&](Request* request) { return connector.NotifyDisconnect(request); }));
  });
}

HRESULT ConnectorObject::Disconnect(OVERLAPPED* overlapped) {
  return Guarded([&] {
    return Hr(calls_.Start(overlapped, [&](Request* request) { return connector.Disconnect(request); }));
  });
}

HRESULT ListenerObject::CancelOverlappedRequests() {
  return Guarded([&] { return AfterCancel(listener_.Cancel(), calls_); });
}

HRESULT ListenerObject::Bind(const sockaddr* address, ULONG length) {
  return Guarded([&] { return Hr(listener_.Bind(Address::FromSockaddr(address, length))); });
}

HRESULT ListenerObject::Listen(ULONG backlog) {
  return Guarded([&] { return Hr(listener_.Listen(backlog)); });
}

HRESULT ListenerObject::GetLocalAddress(sockaddr* address, ULONG* length) {
  return WithLength(length, [&](std::size_t* size) { return listener_.GetLocalAddress(address, size); });
}

HRESULT ListenerObject::GetConnectionRequest(IUnknown* connector, OVERLAPPED* overlapped) {
  return Guarded([&] {
    const auto wanted = Find<ConnectorObject>(connector);
    if (!wanted) return Hr(StatusCode::kInvalidParameter1);
    return Hr(calls_.Start(overlapped, [&](Request* request) {
      return listener_.GetConnectionRequest(wanted->connector, request);
    }));
  });
}

}  // namespace nd::spi
