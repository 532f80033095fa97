// SPDX-License-Identifier: Apache-2.0
// The events of the core. Plain values: no descriptor, clock, thread or message type.
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
#include "session/events.h"
#include "session/operations.h"

namespace nd::core {

using provider::Bytes;
using provider::CmId;
using provider::EndpointId;

// The pod of a client, as the kubelet named it. All empty: none that the broker can name.
struct PodName {
  std::string namespace_name, name, service_account;
};

// The identity of a client, from the kernel. `application` is a name that the client chose; it is only
// displayed.
struct Identity {
  std::uint32_t pid = 0, uid = 0, gid = 0;
  std::string command, cgroup, application;
  // The network namespace of the client differs from that of the broker and is not served, so no adapter has
  // an address there. The sentence tells why; it may be empty.
  bool foreign_network = false;
  std::string network_problem;
  // The served network namespace whose adapters the client uses (provider::AdapterDescription::network); 0:
  // the broker's.
  std::uint64_t network = 0;
  // Its pid, network or user namespace differs from that of the broker, so its uid 0 is not root of this
  // host.
  bool foreign_namespace = false;
  std::string unit, container;  // From the cgroup (service/cgroup_name.h); empty: none.
  PodName pod;                  // From the cgroup and the CSI driver (service/pod_name.h).
  std::uint32_t features = 0;   // session::ClientFeatures of its library.
  std::uint64_t born = 0;       // When the process started, as in Process (lease.h).
};

// The operations of a session (ConnectOp, ...), their results and the events have the same names here.
using namespace session;  // NOLINT(google-build-using-namespace)

// ---- Events -------------------------------------------------------------------------------------------
struct SessionOpened {
  SessionId session;
  Identity identity;
};
struct SessionClosed {
  SessionId session;
  Status why{};  // SUCCESS: the application ended; otherwise the error of the session.
};
// Reclaims the next slice of the objects of ended sessions; due whenever Broker::reclaiming() is true.
struct ReclaimSome {
  // How many objects this step and later ones reclaim, as in Broker::Options; 0: as many as before. The core
  // has no clock: the shell measures how long a slice takes and adapts the number (shell/reclaim_pace.h).
  std::uint32_t slice = 0;
};
struct ClientOp {
  SessionId session;
  OpId op_id = 0;
  Operation op;
};
// Events of the wire; each is the CmSink method of the same name.
struct CmReserved {
  EndpointId endpoint;
  Status status;
};
struct CmRequested {
  provider::InboundRequest request;
};
// The peer host answered and passes the request to its application (provider::CmSink::OnReached).
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
// The new set of adapters. Vanished adapters are removed: pending operations complete with DEVICE_REMOVED.
struct AdaptersChanged {
  std::vector<provider::AdapterDescription> adapters;
};
// The deadline of Broker::NextDeadline() has passed.
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
// Refuses new sessions, listeners, connects and requests of peers until it is switched off again.
struct SetDraining {
  bool drain = true;
};
// Reserves a port of every adapter that has the address, for `uid` only or for no user; ReleasePort releases
// it.
struct ReservePort {
  Address local;
  std::optional<std::uint32_t> uid;
  std::string comment;
  std::uint64_t request = 0;  // The ReserveDone has the same number; unique among pending requests.
};
struct ReleasePort {
  Address local;
};
// The last event: the broker ends and its connections continue without it.
struct Stopping {};

using Event =
    std::variant<SessionOpened, SessionClosed, ClientOp, CmReserved, CmRequested, CmReached, CmReplied,
                 CmRejected, CmFailed, CmPrepare, CmEstablished, CmLost, CmPeerClosed, CmDisconnected,
                 AdaptersChanged, Tick, SetAdapter, KillConnection, KillSession, PauseListener,
                 SettingsChanged, SetDraining, ReservePort, ReleasePort, Stopping, ReclaimSome>;

}  // namespace nd::core
