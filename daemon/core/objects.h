// SPDX-License-Identifier: Apache-2.0
// The broker's objects as plain data. They refer to each other by handle only, never by pointer, and are
// changed by the broker alone (impl.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/container/btree_set.h"
#include "daemon/core/connector_state.h"
#include "daemon/core/event.h"
#include "daemon/core/listener_queue.h"
#include "daemon/core/op_log.h"
#include "daemon/core/port_space.h"
#include "daemon/core/quota.h"
#include "daemon/core/record.h"
#include "daemon/core/tuple_table.h"

namespace nd::core {

// An operation that has not completed. Exactly one place holds it; Broker::Impl::Finish empties that place.
struct Pending {
  OpId op_id = 0;
  std::uint64_t sequence = 0;  // Order of submission over all sessions.
  explicit operator bool() const { return op_id != 0; }
};

// How an attempt or a connection ends, for its record.
struct Ending {
  ConnectionRecord::Outcome outcome;
  Status why;
};

// How the other end of a connection ended, where this broker has both ends and knows better than a transport.
struct OtherEnd {
  DisconnectReason reason;
  Status why;
};

// Key of an armed timer; {0,0} is none.
struct TimerKey {
  Time when{};
  std::uint64_t sequence = 0;
  explicit operator bool() const { return sequence != 0; }
  friend auto operator<=>(const TimerKey&, const TimerKey&) = default;
};

enum class ObjectKind : std::uint8_t { kAdapter, kQueuePair, kConnector, kListener, kSharedEndpoint };

struct Object {
  explicit Object(ObjectKind k) : kind(k) {}
  virtual ~Object() = default;

  const ObjectKind kind;
  Handle handle;
  SessionId session{};
  AdapterNo adapter_no = 0;
  Handle adapter;              // The session's handle of the adapter; null for the adapter itself.
  std::uint64_t sequence = 0;  // Order of creation.
  Time created{};
  bool closing = false;  // Close was submitted: the handle is no longer valid for the client.
  bool removed = false;  // Its adapter was removed or disabled under it.
  Pending close_op;
  std::uint32_t successors = 0;  // Live objects that Close waits for.
  Quota::Token charge;
};

// An object's hold on a local port: one reference to an entry of the port space.
struct PortClaim {
  std::optional<PortKey> key;
  bool reserving = false;        // Waits for CmReserved.
  bool any = false;              // Port 0 was asked for: the next candidate may be tried.
  std::uint32_t candidates = 0;  // Tried so far.
  // Holds of the leases that it replaced: let go once its own was asked for, so that the port is never free.
  std::vector<EndpointId> replaced{};
};

struct OpenedAdapter : Object {
  OpenedAdapter() : Object(ObjectKind::kAdapter) {}
};

struct QueuePair : Object {
  QueuePair() : Object(ObjectKind::kQueuePair) {}
  std::uint32_t counter_slot = 0;
  std::uint32_t device_number = 0, receive_depth = 0, initiator_depth = 0;
  Handle connector;        // The one it belongs to.
  bool ndk_close = false;  // Its Close waits for the connector's.
  bool spent = false;      // Was connected once; the specification forbids a second time.
};

struct Connector : Object {
  Connector() : Object(ObjectKind::kConnector) {}

  ConnectorState state = ConnectorState::kUnbound;
  bool passive = false;
  Address local, remote;

  PortClaim claim;
  bool persistent = false;   // Bind took the port, so a failed Connect keeps it.
  bool reattaching = false;  // Reattach that waits for CmReserved; not yet known to the client.
  Handle through;            // Listener or shared endpoint whose successor it is.
  Handle waits_at;           // Waiting: the listener.
  bool has_tuple = false;
  std::uint64_t attempt = 0;  // Names this attempt in the tuple table; equals the CmId when there is one.

  std::optional<CmId> cm;       // Live in the connection manager.
  bool in_flight = false;       // Counts against max_handshakes_in_flight.
  std::uint64_t queue_key = 0;  // Connecting and throttled: place in the queue.
  TimerKey pace_timer, establish_timer, goodbye_timer;

  Handle queue_pair;
  ReadLimits offer;   // Active: what was offered. Passive: what the peer offered.
  ReadLimits limits;  // What GetReadLimits answers.
  Bytes send_data;    // Private data for the request, until it is sent.
  Bytes data;         // The peer's private data.
  bool limits_known = true;
  bool refusal_data = false;  // `data` came with a refusal.

  bool preparing = false;  // The client was asked to prepare its queue pair and has not answered.
  bool was_connected = false;
  bool withdrawn_incoming = false, withdrawn_replied = false, expired_replied = false,
       completion_told = false;
  Status ended;  // Why, for the three flags above.
  DisconnectReason reason = DisconnectReason::kUnknown;
  bool disconnect_event = false;

  bool recording = false;            // An attempt or connection whose end has not been told.
  std::optional<PhaseTimes> phases;  // Of this attempt, or of the latest one.
  std::optional<Time> established;
  std::optional<OtherEnd> other_end;

  // Bind, Connect, CompleteConnect, Accept, Disconnect, GetConnectionRequest or Reattach; one at a time.
  Pending op;
  std::vector<Pending> notifies;
};

struct Listener : Object {
  Listener() : Object(ObjectKind::kListener) {}
  enum class State : std::uint8_t { kUnbound, kBound, kListening };
  State state = State::kUnbound;
  Address local;
  PortClaim claim;
  bool listen_after_bind = false;  // NDK: the pending operation is Listen.
  bool connect_events = false;
  Pending op;  // Bind or Listen that waits for CmReserved.
  std::uint32_t asked_backlog = 0;
  ListenerQueue queue;
  std::uint64_t accepted = 0, refused = 0;
};

struct SharedEndpoint : Object {
  SharedEndpoint() : Object(ObjectKind::kSharedEndpoint) {}
  Address local;
  PortClaim claim;
  Pending op;  // CreateSharedEndpoint that waits for CmReserved; the client does not know the handle yet.
};

struct Session {
  SessionId id{};
  Identity who;
  Time opened{};
  bool ending = false;  // EndSession was sent; nothing is accepted any more.
  bool killed = false;  // By the administrator.
  Status ended_because;
  Quota::Token charge;
  OpLog ops;
  std::uint64_t operations = 0;
  absl::btree_map<std::uint64_t, Handle> objects;  // By order of creation.
  std::uint32_t connectors = 0, listeners = 0, shared_endpoints = 0, queue_pairs = 0, adapters = 0;
  absl::btree_set<std::uint32_t> free_slots;  // Counter slots below next_slot.
  std::uint32_t next_slot = 0;
};

// One adapter of the provider; a name that vanishes and comes back is a new one.
struct AdapterState {
  provider::AdapterDescription description;
  bool present = true, enabled = true;
  std::uint32_t listeners = 0;  // That listen.
  std::string noted{};          // Of the description's problem: what has been said about it.
};

}  // namespace nd::core
