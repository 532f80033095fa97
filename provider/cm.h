// SPDX-License-Identifier: Apache-2.0
// The daemon half of a provider: reserves ports, speaks the wire handshake, produces hand-overs.
//
// It decides nothing about ports, backlog, quotas or states; that is the core's. Every command is
// non-blocking and is answered through CmSink. All calls, in both directions, happen on the daemon's loop
// thread. A command may call the sink before it returns; the sink only queues.
//
// Two ids: a CmId is one connection attempt (active: chosen by the core, top bit clear; inbound: chosen
// by the provider, top bit set), an EndpointId is one reserved local address (chosen by the core).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/event_loop.h"
#include "nd/status.h"
#include "nd/types.h"
#include "provider/hand_off.h"

namespace nd::provider {

enum class CmId : std::uint64_t {};
enum class EndpointId : std::uint64_t {};
inline constexpr std::uint64_t kInboundBit = std::uint64_t{1} << 63;

using Bytes = std::vector<std::uint8_t>;

// One adapter as its provider describes it.
struct AdapterDescription {
  AdapterInfo info;
  // Not SUCCESS: nobody can use it, for this reason; the sentence names the remedy. Then only info.name counts.
  Status problem;
  std::string mode;            // "separate" or "tcp" on soft, "" elsewhere; for people.
  std::uint16_t tcp_port = 0;  // The shared TCP port of separate mode, else 0; for people.
  // ND ports are ports of the host (tcp mode, verbs): the core must Reserve() before it grants one.
  bool reserve_ports = false;
  // Reserve() is asked for idle ports, too: those kept for somebody who is away and those an administrator
  // reserved. Where endpoints of this adapter cover the same address they share its port.
  bool keep_ports = false;
  // Goodbyes are said by the client's half (soft) and not by this one (verbs).
  bool client_disconnects = true;
};

struct ConnectParams {
  CmId id{};
  EndpointId endpoint{};  // The reserved local address, when reserve_ports.
  std::string adapter;
  Address local, remote;  // Both with ND ports.
  ReadLimits offer;       // Already capped by the adapter.
  Bytes private_data;
  std::uint32_t device_qp = 0;    // The client's queue pair number, for providers that need it.
  std::uint32_t owner_uid = 0;    // Of the application that connects.
  std::uint32_t owner_pid = 0;
};

struct AcceptParams {
  ReadLimits limits;  // Effective on this side (behaviour of table b.4 step 3).
  Bytes private_data;
  std::uint32_t device_qp = 0;
  std::uint32_t owner_uid = 0;
  std::uint32_t owner_pid = 0;
};

// A request that arrived. `local.port()` is the ND port asked for.
struct InboundRequest {
  CmId id{};
  std::string adapter;
  Address local, remote;
  bool limits_known = true;  // False when the wire could not carry them (MPA revision 1).
  ReadLimits peer_offer;     // As the peer sees it: inbound = reads it will take, outbound = reads it wants.
  Bytes private_data;
};

class CmSink {
 public:
  virtual ~CmSink() = default;
  // Answer to Reserve. SHARING_VIOLATION, INVALID_ADDRESS, ACCESS_DENIED, INSUFFICIENT_RESOURCES.
  virtual void OnReserved(EndpointId endpoint, const Status& status) = 0;
  virtual void OnRequest(const InboundRequest& request) = 0;
  // The peer's host answered, and the request is on its way to its application. At most once, before OnReply;
  // for measurements only, so a provider that cannot tell says nothing.
  virtual void OnReached(CmId id) { static_cast<void>(id); }
  // The peer accepted; `peer` are its effective limits (peer.inbound bounds our outbound).
  virtual void OnReply(CmId id, bool limits_known, const ReadLimits& peer, const Bytes& private_data) = 0;
  // The peer refused our request. `detail` is kNoListener, kBacklogFull, kPaused, kPeerRejected, ...;
  // only kPeerRejected carries data. The id is finished.
  virtual void OnRejected(CmId id, const Status& status, const Bytes& private_data) = 0;
  // Our request got nowhere: NETWORK_UNREACHABLE, HOST_UNREACHABLE, CONNECTION_REFUSED, IO_TIMEOUT,
  // INSUFFICIENT_RESOURCES, SHARING_VIOLATION, ADDRESS_ALREADY_EXISTS. The id is finished.
  virtual void OnFailed(CmId id, const Status& status) = 0;
  // Providers whose queue pair lives in a device: the owner of this attempt's queue pair must apply
  // `attributes` (provider::QueuePair::Prepare) before the connection can go up. Comes at most once per id,
  // after Accept() or Confirm(), and is answered by ConnectionManager::Prepared(). In between only OnLost can
  // come for this id. A sink that never meets such a provider has nothing to do here.
  virtual void OnPrepare(CmId /*id*/, const Bytes& /*attributes*/) {}
  // The connection is up: active after Confirm(), passive when the peer's confirmation (or its first
  // data) arrived. TakeHandOff() may now be called.
  virtual void OnEstablished(CmId id) = 0;
  // The attempt ended between request (inbound) or reply (active) and establishment: CONNECTION_ABORTED
  // (withdrawn; detail kPeerRejected when the active side rejected, with its data) or IO_TIMEOUT. Finished.
  virtual void OnLost(CmId id, const Status& status, const Bytes& private_data) = 0;
  // Providers with client_disconnects == false: the peer disconnected; and the answer to Disconnect().
  virtual void OnPeerClosed(CmId id, DisconnectReason reason) = 0;
  virtual void OnDisconnected(CmId id, const Status& status) = 0;
  // An adapter came or went or changed its addresses; adapters() has the new truth.
  virtual void OnAdaptersChanged() = 0;
  // A socket on which peers arrive could not take one in: the errno of accept(). To be counted and logged.
  virtual void OnAcceptError(int error) { static_cast<void>(error); }
};

class ConnectionManager {
 public:
  virtual ~ConnectionManager() = default;

  virtual std::vector<AdapterDescription> adapters() const = 0;

  // Holds host port `local.port()` (never 0) until Release. Only when reserve_ports. With keep_ports a port is
  // not free for a moment when Reserve for one endpoint comes before Release of the other.
  virtual void Reserve(EndpointId endpoint, const std::string& adapter, const Address& local) = 0;
  virtual void Release(EndpointId endpoint) = 0;
  // From now on / no longer, requests for `local` may arrive. Unlisten keeps the reservation. Called in
  // every mode, so that a provider can open and close whatever it needs.
  virtual void Listen(EndpointId endpoint, const std::string& adapter, const Address& local) = 0;
  virtual void Unlisten(EndpointId endpoint) = 0;

  virtual void Connect(const ConnectParams& params) = 0;
  // Inbound, unanswered. Afterwards OnEstablished or OnLost.
  virtual void Accept(CmId id, const AcceptParams& params) = 0;
  // Inbound unanswered, or active replied. `detail` tells the peer why; finishes the id, no event.
  virtual void Reject(CmId id, Detail detail, const Bytes& private_data) = 0;
  // Active, replied: sends the confirmation, then OnEstablished or OnLost.
  virtual void Confirm(CmId id) = 0;
  // The answer to OnPrepare. SUCCESS: the wire handshake goes on, then OnEstablished or OnLost. Anything else:
  // the peer is refused and OnLost tells this status. Ids that ended meanwhile are ignored.
  virtual void Prepared(CmId /*id*/, const Status& /*status*/) {}
  // Any live id: withdraws it from the wire, frees everything, no event afterwards. Also how the core lets
  // go of an id whose hand-over was taken.
  virtual void Abort(CmId id) = 0;
  // Established, client_disconnects == false only.
  virtual void Disconnect(CmId id) = 0;

  // Established: the transport itself, once. `record.id` and `record.connector` are filled by the caller.
  // INSUFFICIENT_RESOURCES when descriptors ran out.
  virtual Result<HandOff> TakeHandOff(CmId id) = 0;

  // Where `remote` would be reached from, among adapters(): the local address, with port 0.
  // NETWORK_UNREACHABLE / INVALID_ADDRESS.
  virtual Result<Address> Resolve(const std::string& adapter, const Address& remote) const = 0;

  // Handshakes in progress on the wire, for `ndctl status`.
  virtual std::uint32_t handshakes() const = 0;
};

}  // namespace nd::provider
