// SPDX-License-Identifier: Apache-2.0
// The daemon half of a provider: reserves ports, speaks the wire handshake, produces hand-overs.
//
// The core decides about ports, backlog, quotas and states. No command blocks; each is answered through
// CmSink. All calls, in both directions, happen on the daemon's loop thread. A command may call the sink
// before it returns; the sink only queues.
//
// Two ids: a CmId is one connection attempt (active: chosen by the core, top bit clear; inbound: chosen
// by the provider, top bit set), an EndpointId is one reserved local address (chosen by the core).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/event_loop.h"
#include "base/unique_fd.h"
#include "nd/status.h"
#include "nd/types.h"
#include "provider/hand_off.h"

namespace nd::provider {

enum class CmId : std::uint64_t {};
enum class EndpointId : std::uint64_t {};
// The session of a client, for providers whose client half makes the connections; 0: none.
enum class ClientId : std::uint64_t {};
inline constexpr std::uint64_t kInboundBit = std::uint64_t{1} << 63;

using Bytes = std::vector<std::uint8_t>;

// One adapter as its provider describes it.
struct AdapterDescription {
  AdapterInfo info;
  // Not SUCCESS: the adapter cannot be used, for this reason; the message names the remedy. Only info.name is
  // valid then.
  Status problem;
  std::string mode;            // "separate" or "tcp" on soft, "" elsewhere; for people.
  std::uint16_t tcp_port = 0;  // The shared TCP port of separate mode, else 0; for people.
  // ND ports are ports of the host (tcp mode, verbs): the core must Reserve() before it grants one.
  bool reserve_ports = false;
  // The core also calls Reserve() for ports without a user: ports kept for a process that is away and ports
  // that an administrator reserved. Endpoints of this adapter that cover the same address share its port.
  bool keep_ports = false;
  // The network namespace that the adapter belongs to (OpenNetwork); 0: that of the broker. Only clients of
  // this network see the adapter.
  std::uint64_t network = 0;
  // True: the client half disconnects (soft). False: the daemon half does (verbs).
  bool client_disconnects = true;
  // Connectors of a listener's process can have the listener's port (allow-same-owner-bind-sharing). False:
  // the listener would miss requests while they live.
  bool shares_listening_ports = true;
  // Registered memory is pinned, and counts against the memlock limit of its process.
  bool pins_memory = false;
};

struct ConnectParams {
  CmId id{};
  EndpointId endpoint{};  // The reserved local address, when reserve_ports.
  std::string adapter;
  Address local, remote;  // Both with ND ports.
  ReadLimits offer;       // Already capped by the adapter.
  Bytes private_data;
  std::uint32_t device_qp = 0;  // The client's queue pair number, for providers that need it.
  std::uint32_t owner_uid = 0;  // Of the application that connects.
  std::uint32_t owner_pid = 0;
  ClientId client{};
  bool extensions = false;  // Its queue pair knows kHandOffExtensions.
};

struct AcceptParams {
  ReadLimits limits;  // Effective on this side (behaviour of table b.4 step 3).
  Bytes private_data;
  std::uint32_t device_qp = 0;
  std::uint32_t owner_uid = 0;
  std::uint32_t owner_pid = 0;
  ClientId client{};
  bool extensions = false;  // Its queue pair knows kHandOffExtensions.
};

// A request that arrived. `local.port()` is the ND port asked for.
struct InboundRequest {
  CmId id{};
  std::string adapter;
  Address local, remote;
  bool limits_known = true;  // False when the wire could not carry them (MPA revision 1).
  ReadLimits peer_offer;     // From the peer's view: inbound = reads it serves, outbound = reads it issues.
  Bytes private_data;
};

class CmSink {
 public:
  virtual ~CmSink() = default;
  // Answer to Reserve. SHARING_VIOLATION, INVALID_ADDRESS, ACCESS_DENIED, INSUFFICIENT_RESOURCES.
  virtual void OnReserved(EndpointId endpoint, const Status& status) = 0;
  virtual void OnRequest(const InboundRequest& request) = 0;
  // The peer host answered and passes the request to its application. At most once, before OnReply. For
  // measurements only; a provider that cannot tell does not call it.
  virtual void OnReached(CmId id) { static_cast<void>(id); }
  // The peer accepted. `peer` holds its effective limits; peer.inbound bounds our outbound limit.
  virtual void OnReply(CmId id, bool limits_known, const ReadLimits& peer, const Bytes& private_data) = 0;
  // The peer refused our request. `detail` is kNoListener, kBacklogFull, kPaused, kPeerRejected, ...;
  // only kPeerRejected carries data. The id is finished.
  virtual void OnRejected(CmId id, const Status& status, const Bytes& private_data) = 0;
  // The attempt failed: NETWORK_UNREACHABLE, HOST_UNREACHABLE, CONNECTION_REFUSED, IO_TIMEOUT,
  // INSUFFICIENT_RESOURCES, SHARING_VIOLATION, ADDRESS_ALREADY_EXISTS. The id is finished.
  virtual void OnFailed(CmId id, const Status& status) = 0;
  // Providers whose queue pair lives in a device: the owner of this attempt's queue pair must apply
  // `attributes` (provider::QueuePair::Prepare) before the connection can be established. Called at most once
  // per id, after Accept() or Confirm(), and answered by ConnectionManager::Prepared(). Until then only
  // OnLost can follow for this id.
  virtual void OnPrepare(CmId /*id*/, const Bytes& /*attributes*/) {}
  // The connection is established: active after Confirm(), passive when the confirmation of the peer or its
  // first data arrived. TakeHandOff() may now be called.
  virtual void OnEstablished(CmId id) = 0;
  // The attempt ended between request (inbound) or reply (active) and establishment: CONNECTION_ABORTED
  // (withdrawn; detail kPeerRejected when the active side rejected, with its data) or IO_TIMEOUT. Finished.
  virtual void OnLost(CmId id, const Status& status, const Bytes& private_data) = 0;
  // Providers with client_disconnects == false: the peer disconnected; and the answer to Disconnect().
  virtual void OnPeerClosed(CmId /*id*/, DisconnectReason /*reason*/) {}
  virtual void OnDisconnected(CmId /*id*/, const Status& /*status*/) {}
  // An adapter appeared, vanished or changed its addresses; adapters() returns the new state.
  virtual void OnAdaptersChanged() = 0;
  // Sends a message to the client half in this session (provider/halves_record.h). A session that has ended
  // gets nothing.
  virtual void SendToClient(ClientId /*client*/, std::span<const std::byte> /*message*/) {}
  // accept() failed with this errno on a socket for peers. The sink counts and logs it.
  virtual void OnAcceptError(int error) { static_cast<void>(error); }
};

class ConnectionManager {
 public:
  virtual ~ConnectionManager() = default;

  virtual std::vector<AdapterDescription> adapters() const = 0;

  // Holds host port `local.port()` (never 0) until Release. Only when reserve_ports. With keep_ports the port
  // stays held when Reserve for one endpoint comes before Release of the other.
  virtual void Reserve(EndpointId /*endpoint*/, const std::string& /*adapter*/, const Address& /*local*/) {}
  virtual void Release(EndpointId /*endpoint*/) {}
  // Reserve() for an object of this client: a listener, or a connector or shared endpoint.
  virtual void ReserveFor(ClientId /*client*/, bool /*listens*/, EndpointId endpoint,
                          const std::string& adapter, const Address& local) {
    Reserve(endpoint, adapter, local);
  }
  // Starts and stops accepting requests for `local`. Unlisten keeps the reservation. Called in every mode, so
  // that a provider can open and close sockets.
  virtual void Listen(EndpointId endpoint, const std::string& adapter, const Address& local) = 0;
  virtual void Unlisten(EndpointId endpoint) = 0;

  virtual void Connect(const ConnectParams& params) = 0;
  // Connect() on an adapter of another network, with a socket that its client made there and that
  // os::WhyUnfit() has judged. The provider may do without it, and without one it may fail.
  virtual void ConnectFrom(const ConnectParams& params, UniqueFd socket) {
    static_cast<void>(socket);
    Connect(params);
  }
  // For an inbound id without an answer. OnEstablished or OnLost follows.
  virtual void Accept(CmId id, const AcceptParams& params) = 0;
  // For an inbound id without an answer, or an active id after OnReply. `detail` tells the peer the reason.
  // Finishes the id without an event.
  virtual void Reject(CmId id, Detail detail, const Bytes& private_data) = 0;
  // For an active id after OnReply: sends the confirmation. OnEstablished or OnLost follows.
  virtual void Confirm(CmId id) = 0;
  // The answer to OnPrepare. SUCCESS: the handshake continues, and OnEstablished or OnLost follows. Otherwise
  // the peer is refused and OnLost reports this status. Ids that have ended are ignored.
  virtual void Prepared(CmId /*id*/, const Status& /*status*/) {}
  // For any live id: withdraws it from the wire and frees it; no event follows. The core also calls this for
  // an id whose hand-over was taken.
  virtual void Abort(CmId id) = 0;
  // For an established id, only when client_disconnects is false.
  virtual void Disconnect(CmId id) { static_cast<void>(id); }

  // For an established id, once: returns the transport. The caller fills `record.id` and `record.connector`.
  // Never fails for want of descriptors: the provider opened them before OnEstablished or reported
  // INSUFFICIENT_RESOURCES by OnLost.
  virtual Result<HandOff> TakeHandOff(CmId id) = 0;

  // Returns the local address, with port 0, from which `adapter` reaches `remote`.
  // NETWORK_UNREACHABLE / INVALID_ADDRESS.
  virtual Result<Address> Resolve(const std::string& adapter, const Address& remote) const = 0;

  // Returns true when the next two functions can succeed.
  virtual bool serves_networks() const { return false; }
  // Serves the clients of another network namespace by sockets that one of them made there: one that reads
  // routes and a TCP socket of each family. adapters() then has an adapter of that network. A network that is
  // served already stays as it is, and the sockets are closed. NOT_SUPPORTED, INVALID_PARAMETER (a socket is
  // not fit), SHARING_VIOLATION (its TCP port is taken there), ACCESS_DENIED, INSUFFICIENT_RESOURCES.
  virtual Status OpenNetwork(std::uint64_t /*network*/, std::vector<UniqueFd> /*sockets*/) {
    return {StatusCode::kNotSupported, "No adapter serves other network namespaces."};
  }
  // Its adapter vanishes, and its sockets are closed.
  virtual void CloseNetwork(std::uint64_t /*network*/) {}

  // The next three are for a provider whose client half makes the connections. transport() is the number of
  // its hand-overs; kNone: the provider takes no messages. Any status of OnClientMessage() but SUCCESS ends
  // the session of the client. Nothing is sent to a client after OnClientGone().
  virtual TransportKind transport() const { return TransportKind::kNone; }
  virtual Status OnClientMessage(ClientId /*client*/, std::span<const std::byte> /*message*/) {
    return {StatusCode::kRemoteError, "this provider takes no messages"};
  }
  virtual void OnClientGone(ClientId /*client*/) {}

  // The broker is about to end: stops accepting on the sockets that outlive it, so that the next broker
  // accepts what arrives from now on. Returns whether there is such a socket.
  virtual bool LeaveListeners() { return false; }

  // Handshakes in progress on the wire, for `ndctl status`.
  virtual std::uint32_t handshakes() const { return 0; }
};

}  // namespace nd::provider
