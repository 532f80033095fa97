// SPDX-License-Identifier: Apache-2.0
// Connections: both dialects of Network Direct over one state machine (docs/status.md has its table and
// every status of every call).
//
//   active : Bind - Connect - CompleteConnect           (ND2)     NdkConnect - CompleteConnect (NDK)
//   passive: Listener::GetConnectionRequest - Accept    (ND2)     connect event - Accept       (NDK)
//
// Asynchronous calls take a Request and block without one. Handles are values; copies name the same object.
// Destroying the last copy closes the object.
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
  // Port 0 takes one from 49152-65535. SHARING_VIOLATION, TOO_MANY_ADDRESSES, INVALID_ADDRESS,
  // ADDRESS_ALREADY_ASSOCIATED, ACCESS_DENIED, INSUFFICIENT_RESOURCES.
  Status Bind(const Address& local);
  // SUCCESS when the peer accepted; then CompleteConnect (or Reject). After CONNECTION_REFUSED, IO_TIMEOUT,
  // NETWORK_UNREACHABLE, HOST_UNREACHABLE, ADDRESS_ALREADY_EXISTS and INSUFFICIENT_RESOURCES it may be called
  // again; receives already posted stay.
  Status Connect(QueuePair& queue_pair, const Address& remote, const ConnectOptions& options = {},
                 Request* request = nullptr);
  // The same with the local address in the call; no Bind.
  Status NdkConnect(QueuePair& queue_pair, const Address& source, const Address& remote,
                    const ConnectOptions& options = {}, Request* request = nullptr);
  Status NdkConnectWithSharedEndpoint(QueuePair& queue_pair, SharedEndpoint& endpoint, const Address& remote,
                                      const ConnectOptions& options = {}, Request* request = nullptr);
  // Afterwards the queue pair is connected and the peer's Accept completes.
  Status CompleteConnect(Request* request = nullptr);

  // --- passive ------------------------------------------------------------------------------------------
  // SUCCESS when the peer ran CompleteConnect, or its first data arrived.
  Status Accept(QueuePair& queue_pair, const ConnectOptions& options = {}, Request* request = nullptr);

  // --- both ---------------------------------------------------------------------------------------------
  // Says no, from Incoming, or from the active side after Connect succeeded. Never pending.
  Status Reject(PrivateData private_data = {});

  // inbound: reads the peer may have in flight towards us. Either pointer may be null.
  Status GetReadLimits(std::uint32_t* inbound, std::uint32_t* outbound) const;
  // ND2: *length is the buffer's size in, the data's size out. BUFFER_OVERFLOW with the prefix copied.
  Status GetPrivateData(void* buffer, std::size_t* length) const;
  // All of it at once.
  Result<std::vector<std::byte>> GetPrivateData() const;
  // NDK: limits and data together; null and 0 asks for the size (SUCCESS); BUFFER_TOO_SMALL with the prefix.
  Status NdkGetConnectionData(std::uint32_t* inbound, std::uint32_t* outbound, void* buffer,
                              std::size_t* length) const;
  Result<Address> GetLocalAddress() const;
  Result<Address> GetPeerAddress() const;
  // The same into a sockaddr: short buffer BUFFER_OVERFLOW (ND2), nothing written, *length is what is needed.
  Status GetLocalAddress(void* sockaddr_buffer, std::size_t* length) const;
  Status GetPeerAddress(void* sockaddr_buffer, std::size_t* length) const;

  // Completes once when the peer disconnects (or the transport dies); see disconnect_reason().
  Status NotifyDisconnect(Request* request = nullptr);
  // NDK: `callback` runs at most once, when the peer disconnects, not for a local Disconnect. Set it before
  // CompleteConnect or Accept. It runs on the dispatch thread.
  void SetDisconnectCallback(std::function<void(DisconnectReason)> callback);
  DisconnectReason disconnect_reason() const;

  // Waits for the peer's goodbye, then everything outstanding completes CANCELED, then this completes.
  Status Disconnect(Request* request = nullptr);
  // Every outstanding request of this connector has completed CANCELED when this returns.
  Status Cancel();
  // Implies reject, withdraw or disconnect. Never fails. The handle is INVALID_HANDLE afterwards.
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
  // The unspecified address covers every address of this adapter.
  Status Bind(const Address& local);
  // 0: as many waiting requests as the broker allows.
  Status Listen(std::uint32_t backlog = 0);
  Result<Address> GetLocalAddress() const;
  Status GetLocalAddress(void* sockaddr_buffer, std::size_t* length) const;
  // `connector` is fresh; it is in state Incoming when this completes.
  Status GetConnectionRequest(Connector& connector, Request* request = nullptr);
  // NDK: while paused, new requests are refused as if nobody listened.
  Status ControlConnectEvents(bool pause);
  Status Cancel();
  // New requests are refused at once; completes when the last accepted connector is closed.
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
  // Completes when the last connector that uses it is closed.
  Status Close(Request* request = nullptr);

  struct Impl;
  explicit SharedEndpoint(std::shared_ptr<Impl> impl);
  const std::shared_ptr<Impl>& impl() const { return impl_; }

 private:
  std::shared_ptr<Impl> impl_;
};

}  // namespace nd
