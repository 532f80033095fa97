// SPDX-License-Identifier: Apache-2.0
// Everything that can happen to the core. Plain values: no descriptor, clock, thread or message type.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "daemon/core/ids.h"
#include "daemon/core/policy.h"
#include "daemon/core/settings.h"
#include "nd/status.h"
#include "nd/types.h"
#include "provider/cm.h"

namespace nd::core {

using provider::Bytes;
using provider::CmId;
using provider::EndpointId;

// Who a client is, from the kernel. `application` is its own word and only shown.
struct Identity {
  std::uint32_t pid = 0, uid = 0, gid = 0;
  std::string command, cgroup, application;
  // Its network namespace is not the broker's, so no adapter has an address there.
  bool foreign_network = false;
  std::string unit, container;  // From the cgroup (service/cgroup_name.h); empty: none.
  std::uint64_t born = 0;       // When the process started, as in Process (lease.h).
};

// ---- Operations of a session; fields as in proto/ndbroker/v1/session.proto -------------------------------
struct ListAdaptersOp {};
struct OpenAdapterOp {
  std::string name;
  Address local;
};
struct ResolveAddressOp {
  Handle adapter;
  Address remote;
};
struct CheckAddressOp {
  Handle adapter;
  Address local;
};
struct CreateQueuePairOp {
  Handle adapter;
  std::uint32_t receive_depth = 0, initiator_depth = 0, device_number = 0;
};
struct CreateConnectorOp {
  Handle adapter;
};
struct CreateListenerOp {
  Handle adapter;
};
struct CreateSharedEndpointOp {
  Handle adapter;
  Address local;
};
struct CloseOp {
  Handle handle;
  bool ndk = false;
};
struct BindOp {
  Handle handle;
  Address local;
};
struct ConnectOp {
  Handle connector, queue_pair;
  Address remote;
  ReadLimits limits;
  Bytes private_data;
  std::uint32_t private_data_length = 0;
  bool has_source = false;  // NDK dialect
  Address source;
  Handle shared_endpoint;  // NDK dialect
};
struct CompleteConnectOp {
  Handle connector;
  bool disconnect_event = false;
};
struct AcceptOp {
  Handle connector, queue_pair;
  ReadLimits limits;
  Bytes private_data;
  std::uint32_t private_data_length = 0;
  bool disconnect_event = false;
};
struct RejectOp {
  Handle connector;
  Bytes private_data;
  std::uint32_t private_data_length = 0;
};
struct GetReadLimitsOp {
  Handle connector;
};
struct GetPrivateDataOp {
  Handle connector;
};
struct GetLocalAddressOp {
  Handle handle;
};
struct GetPeerAddressOp {
  Handle connector;
};
struct NotifyDisconnectOp {
  Handle connector;
};
struct DisconnectOp {
  Handle connector;
};
struct CancelOp {
  Handle handle;
};
struct ListenOp {
  Handle listener;
  std::uint32_t backlog = 0;
  bool has_local = false;  // NDK dialect: bind too
  Address local;
  bool connect_events = false;
};
struct ControlConnectEventsOp {
  Handle listener;
  bool pause = false;
};
struct GetConnectionRequestOp {
  Handle listener, connector;
};
struct TransportReportOp {
  enum class What { kPeerClosed, kDisconnectDone, kPrepared };
  Handle connector;
  What what = What::kPeerClosed;
  DisconnectReason reason = DisconnectReason::kUnknown;
  Status status;
};
struct ReattachOp {
  Handle adapter, queue_pair;
  Address local, remote;
  ReadLimits limits;
  bool passive = false;
};

using Op =
    std::variant<ListAdaptersOp, OpenAdapterOp, ResolveAddressOp, CheckAddressOp, CreateQueuePairOp,
                 CreateConnectorOp, CreateListenerOp, CreateSharedEndpointOp, CloseOp, BindOp, ConnectOp,
                 CompleteConnectOp, AcceptOp, RejectOp, GetReadLimitsOp, GetPrivateDataOp, GetLocalAddressOp,
                 GetPeerAddressOp, NotifyDisconnectOp, DisconnectOp, CancelOp, ListenOp,
                 ControlConnectEventsOp, GetConnectionRequestOp, TransportReportOp, ReattachOp>;

// ---- Events -------------------------------------------------------------------------------------------
struct SessionOpened {
  SessionId session;
  Identity identity;
};
struct SessionClosed {
  SessionId session;
  Status why{};  // SUCCESS: its application went; otherwise what it did wrong.
};
struct ClientOp {
  SessionId session;
  OpId op_id = 0;
  Op op;
};
// The wire; each as the CmSink method of the same name.
struct CmReserved {
  EndpointId endpoint;
  Status status;
};
struct CmRequested {
  provider::InboundRequest request;
};
// The peer's host answered and the request is on its way to it (provider::CmSink::OnReached).
struct CmReached {
  CmId id;
};
struct CmReplied {
  CmId id;
  bool limits_known = true;
  ReadLimits peer;
  Bytes private_data;
};
struct CmRejected {
  CmId id;
  Status status;
  Bytes private_data;
};
struct CmFailed {
  CmId id;
  Status status;
};
struct CmPrepare {
  CmId id;
  Bytes attributes;
};
struct CmEstablished {
  CmId id;
};
struct CmLost {
  CmId id;
  Status status;
  Bytes private_data;
};
struct CmPeerClosed {
  CmId id;
  DisconnectReason reason;
};
struct CmDisconnected {
  CmId id;
  Status status;
};
// The set of adapters is now this. Vanished ones are removed (DEVICE_REMOVED to everything pending).
struct AdaptersChanged {
  std::vector<provider::AdapterDescription> adapters;
};
// Time passed the deadline that Broker::NextDeadline() named.
struct Tick {};
// The administrator.
struct SetAdapter {
  std::string name;
  bool enabled = true;
};
struct KillConnection {
  Handle connector;
};
struct KillSession {
  SessionId session;
};
struct PauseListener {
  Handle listener;
  bool pause = false;
};
struct SettingsChanged {
  Settings settings;
  Policy policy;
};
// Takes nothing new (sessions, listeners, connects, requests of peers) until it is told to go on.
struct SetDraining {
  bool drain = true;
};
// Takes a port of every adapter that has the address, for `uid` only or for nobody, and gives it back.
struct ReservePort {
  Address local;
  std::optional<std::uint32_t> uid;
  std::string comment;
  std::uint64_t request = 0;  // Named by the ReserveDone that answers; unique among those without an answer.
};
struct ReleasePort {
  Address local;
};
// The last event: the broker ends and its connections go on without it.
struct Stopping {};

using Event = std::variant<SessionOpened, SessionClosed, ClientOp, CmReserved, CmRequested, CmReached,
                           CmReplied, CmRejected, CmFailed, CmPrepare, CmEstablished, CmLost, CmPeerClosed,
                           CmDisconnected, AdaptersChanged, Tick, SetAdapter, KillConnection, KillSession,
                           PauseListener, SettingsChanged, SetDraining, ReservePort, ReleasePort, Stopping>;

}  // namespace nd::core
