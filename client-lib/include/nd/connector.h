// SPDX-License-Identifier: Apache-2.0
// Connections. Both dialects of Network Direct, ND2 and NDK, drive the same state machine. docs/status.md
// lists its states and every status of every call.
//
//   active : Bind - Connect - CompleteConnect           (ND2)     NdkConnect - CompleteConnect (NDK)
//   passive: Listener::GetConnectionRequest - Accept    (ND2)     connect event - Accept       (NDK)
//
// A call that takes a Request returns PENDING with one and blocks without one. Connector, Listener and
// SharedEndpoint are handles: copies name the same object, and destroying the last copy closes it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "nd/queue_pair.h"
#include "nd/request.h"
#include "nd/status.h"
#include "nd/types.h"

namespace nd {

class SharedEndpoint;

using PrivateData = std::span<const std::byte>;
// Text as private data: AsPrivateData("hello").
inline PrivateData AsPrivateData(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

struct ConnectOptions {
  ReadLimits limits{16, 16};
  PrivateData private_data{};
};

struct ConnectionData {
  ReadLimits limits;
  std::vector<std::byte> private_data;
};

class Connector {
 public:
  Connector() = default;

  // --- active -------------------------------------------------------------------------------------------
  // Takes the local address. Port 0 selects a free port from 49152-65535. Fails with SHARING_VIOLATION,
  // TOO_MANY_ADDRESSES, INVALID_ADDRESS, ADDRESS_ALREADY_ASSOCIATED, ACCESS_DENIED, INSUFFICIENT_RESOURCES.
  Status Bind(const Address& local);
  // Completes with SUCCESS when the peer accepted; call CompleteConnect or Reject next. After
  // CONNECTION_REFUSED, IO_TIMEOUT, NETWORK_UNREACHABLE, HOST_UNREACHABLE, ADDRESS_ALREADY_EXISTS or
  // INSUFFICIENT_RESOURCES, Connect may be called again; receives that were posted stay posted.
  Status Connect(QueuePair& queue_pair, const Address& remote, const ConnectOptions& options = {},
                 Request* request = nullptr);
  // NDK: Connect with the local address as an argument, without Bind.
  Status NdkConnect(QueuePair& queue_pair, const Address& source, const Address& remote,
                    const ConnectOptions& options = {}, Request* request = nullptr);
  // NDK: Connect from the address of a shared endpoint, without Bind.
  Status NdkConnectWithSharedEndpoint(QueuePair& queue_pair, SharedEndpoint& endpoint, const Address& remote,
                                      const ConnectOptions& options = {}, Request* request = nullptr);
  // Connects the queue pair. The peer's Accept completes.
  Status CompleteConnect(Request* request = nullptr);

  // --- passive ------------------------------------------------------------------------------------------
  // Completes with SUCCESS when the peer called CompleteConnect or its first data arrived.
  Status Accept(QueuePair& queue_pair, const ConnectOptions& options = {}, Request* request = nullptr);

  // --- both ---------------------------------------------------------------------------------------------
  // Refuses the connection: on the passive side in state Incoming, on the active side after Connect
  // succeeded. Never returns PENDING.
  Status Reject(PrivateData private_data = {});

  // *inbound: the Reads that the peer may have in flight to this side. *outbound: the Reads that this side
  // may have in flight. Either pointer may be null.
  Status GetReadLimits(std::uint32_t* inbound, std::uint32_t* outbound) const;
  // ND2: *length is the size of the buffer on entry and the size of the data on return. A buffer that is too
  // small receives the beginning of the data, and the call returns BUFFER_OVERFLOW.
  Status GetPrivateData(void* buffer, std::size_t* length) const;
  // Returns all private data.
  Result<std::vector<std::byte>> GetPrivateData() const;
  // NDK: read limits and private data in one call. A null buffer with length 0 returns the size and SUCCESS.
  // A buffer that is too small receives the beginning of the data, and the call returns BUFFER_TOO_SMALL.
  Status NdkGetConnectionData(std::uint32_t* inbound, std::uint32_t* outbound, void* buffer,
                              std::size_t* length) const;
  Result<Address> GetLocalAddress() const;
  Result<Address> GetPeerAddress() const;
  // ND2: the address as a sockaddr. When the buffer is too small, the call writes nothing, sets *length to
  // the size it needs and returns BUFFER_OVERFLOW.
  Status GetLocalAddress(void* sockaddr_buffer, std::size_t* length) const;
  Status GetPeerAddress(void* sockaddr_buffer, std::size_t* length) const;

  // Completes when the peer disconnects or the transport fails; disconnect_reason() then says why.
  Status NotifyDisconnect(Request* request = nullptr);
  // NDK: `callback` runs on the dispatch thread, at most once, when the peer disconnects; a local Disconnect
  // does not run it. Set it before CompleteConnect or Accept.
  void SetDisconnectCallback(std::function<void(DisconnectReason)> callback);
  DisconnectReason disconnect_reason() const;

  // Waits until the peer has disconnected too, completes every outstanding request with CANCELED, then
  // completes itself.
  Status Disconnect(Request* request = nullptr);
  // Completes every outstanding request of this connector with CANCELED before it returns.
  Status Cancel();
  // Rejects an incoming request, withdraws an attempt or ends a connection, then frees the connector. Never
  // fails. Later calls on the handle return INVALID_HANDLE.
  Status Close(Request* request = nullptr);

  struct Impl;
  explicit Connector(std::shared_ptr<Impl> impl);
  const std::shared_ptr<Impl>& impl() const { return impl_; }

 private:
  std::shared_ptr<Impl> impl_;
};

class Listener {
 public:
  Listener() = default;
  // The unspecified address (0.0.0.0 or ::) covers every address of the adapter.
  Status Bind(const Address& local);
  // `backlog`: how many requests may wait for GetConnectionRequest; 0 means the broker's limit.
  Status Listen(std::uint32_t backlog = 0);
  Result<Address> GetLocalAddress() const;
  Status GetLocalAddress(void* sockaddr_buffer, std::size_t* length) const;
  // Completes when a request has arrived. `connector` must be unused; it is in state Incoming afterwards.
  Status GetConnectionRequest(Connector& connector, Request* request = nullptr);
  // NDK: while the listener is paused, new requests are refused as if there were no listener.
  Status ControlConnectEvents(bool pause);
  // Completes every pending GetConnectionRequest with CANCELED before it returns.
  Status Cancel();
  // Refuses new requests at once and completes when the last connector it delivered is closed.
  Status Close(Request* request = nullptr);

  struct Impl;
  explicit Listener(std::shared_ptr<Impl> impl);
  const std::shared_ptr<Impl>& impl() const { return impl_; }

 private:
  std::shared_ptr<Impl> impl_;
};

// NDK: one local port for connections to many destinations.
class SharedEndpoint {
 public:
  SharedEndpoint() = default;
  Result<Address> GetLocalAddress() const;
  Status GetLocalAddress(void* sockaddr_buffer, std::size_t* length) const;
  // Completes when the last connector that uses the endpoint is closed.
  Status Close(Request* request = nullptr);

  struct Impl;
  explicit SharedEndpoint(std::shared_ptr<Impl> impl);
  const std::shared_ptr<Impl>& impl() const { return impl_; }

 private:
  std::shared_ptr<Impl> impl_;
};

}  // namespace nd
