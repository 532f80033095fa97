// SPDX-License-Identifier: Apache-2.0
// The broker's objects as plain data. They refer to each other by handle, never by pointer. Only the broker
// changes them (impl.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "daemon/core/connector_state.h"
#include "daemon/core/event.h"
#include "daemon/core/listener_queue.h"
#include "daemon/core/ports.h"
#include "daemon/core/quota.h"
#include "daemon/core/record.h"
#include "daemon/core/sessions.h"
#include "daemon/core/tuple_table.h"

namespace nd::core {

// The end of an attempt or a connection, for its record.
struct Ending {
  ConnectionRecord::Outcome outcome;
  Status why;
};

// The end of the other side of a connection, when this broker has both sides and knows more than the
// transport.
struct OtherEnd {
  DisconnectReason reason;
  Status why;
};

// The key of an armed timer; {0,0}: none.
struct TimerKey {
  Time when{};
  std::uint64_t sequence = 0;
  explicit operator bool() const { return sequence != 0; }
  friend auto operator<=>(const TimerKey&, const TimerKey&) = default;
};

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
  OpId made_by = 0;              // Not 0: the operation that made it ahead, by which its session may name it.
  Quota::Token charge;
};

struct OpenedAdapter : Object {
  static constexpr ObjectKind kKind = ObjectKind::kAdapter;
  OpenedAdapter() : Object(kKind) {}
};

struct QueuePair : Object {
  static constexpr ObjectKind kKind = ObjectKind::kQueuePair;
  QueuePair() : Object(kKind) {}
  std::uint32_t counter_slot = 0;
  std::uint32_t device_number = 0, receive_depth = 0, initiator_depth = 0;
  Handle connector;        // The one it belongs to.
  bool ndk_close = false;  // Its Close waits for that of the connector.
  bool spent = false;      // Was connected once; it cannot be connected again.
};

struct Connector : Object {
  static constexpr ObjectKind kKind = ObjectKind::kConnector;
  Connector() : Object(kKind) {}

  ConnectorState state = ConnectorState::kUnbound;
  bool passive = false;
  Address local, remote;

  PortClaim claim;
  bool persistent = false;       // Bind took the port, so a failed Connect keeps it.
  bool reattaching = false;      // Reattach that waits for CmReserved; not yet known to the client.
  bool made_queue_pair = false;  // Reattach made its queue pair.
  Handle through;                // Listener or shared endpoint whose successor it is.
  Handle waits_at;               // Waiting: the listener.
  bool unanswered = false;       // Incoming, delivered as an event: counts against the listener's backlog.
  bool has_tuple = false;
  std::uint64_t attempt = 0;  // Names this attempt in the tuple table; equals the CmId when there is one.

  std::optional<CmId> cm;  // Live in the connection manager.
  TimerKey pace_timer, establish_timer, goodbye_timer;

  Handle queue_pair;
  ReadLimits offer;   // Active: the limits that this side offered. Passive: the limits that the peer offered.
  ReadLimits limits;  // The result of GetReadLimits.
  Bytes send_data;    // Private data for the request, until it is sent.
  Bytes data;         // The peer's private data.
  bool limits_known = true;
  bool refusal_data = false;  // `data` came with a refusal.

  bool preparing = false;  // The client was asked to prepare its queue pair and has not answered.
  bool was_connected = false;
  bool withdrawn_incoming = false, withdrawn_replied = false, expired_replied = false,
       completion_told = false;
  Status ended;  // The reason for each of the three flags above.
  DisconnectReason reason = DisconnectReason::kUnknown;
  bool disconnect_event = false;

  bool recording = false;            // An attempt or connection whose end is not recorded.
  std::optional<PhaseTimes> phases;  // Of this attempt, or of the latest one.
  std::optional<Time> established;
  std::optional<OtherEnd> other_end;

  // Bind, Connect, CompleteConnect, Accept, Disconnect, GetConnectionRequest or Reattach; one at a time.
  Pending op;
  std::vector<Pending> notifies;
};

struct Listener : Object {
  static constexpr ObjectKind kKind = ObjectKind::kListener;
  Listener() : Object(kKind) {}
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
  static constexpr ObjectKind kKind = ObjectKind::kSharedEndpoint;
  SharedEndpoint() : Object(kKind) {}
  Address local;
  PortClaim claim;
  Pending op;  // CreateSharedEndpoint that waits for CmReserved; the client does not know the handle yet.
};

}  // namespace nd::core
