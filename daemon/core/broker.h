// SPDX-License-Identifier: Apache-2.0
// The broker's state machine: sessions, port space, listeners, connectors, shared endpoints, quotas.
//
// One call, Step(event) -> actions. It contains no thread, system call, clock or random device, and every
// order is defined, so the same events give the same actions in the daemon and in the simulator. One thread
// at a time. No event can make it abort: a wrong operation gets an answer, and a session that breaks the
// protocol is ended. Its own invariants are CHECKed.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "daemon/core/action.h"
#include "daemon/core/connector_state.h"
#include "daemon/core/event.h"
#include "daemon/core/policy.h"
#include "daemon/core/proof.h"
#include "daemon/core/quota.h"
#include "daemon/core/record.h"
#include "daemon/core/settings.h"
#include "daemon/core/spares.h"

namespace nd::core {

// Rows of the admin lists, in order of creation.
struct ConnectionRow {
  Handle id;
  ConnectorState state = ConnectorState::kUnbound;
  Address local, peer;
  SessionId session{};
  Identity owner;
  std::string adapter;
  bool passive = false;
  provider::CmId cm_id{};
  ReadLimits limits;
  Time created;
  std::uint32_t counter_slot = 0;  // Of the queue pair; valid when has_queue_pair.
  bool has_queue_pair = false;
  Handle through;                    // Listener or shared endpoint.
  std::optional<PhaseTimes> phases;  // Of the present or latest attempt; absent before the first.
};
struct ListenerRow {
  Handle id;
  Address local;
  std::string state;  // "unbound", "bound", "listening", "paused", "closing"
  SessionId session{};
  Identity owner;
  std::string adapter;
  std::uint32_t backlog_limit = 0, backlog_used = 0, waiting_gets = 0;
  std::uint64_t accepted = 0, refused = 0;
  Time created;
};
struct QueuePairRow {
  Handle id;
  Handle connection;  // Null: none.
  SessionId session{};
  Identity owner;
  std::string adapter;
  std::uint32_t receive_depth = 0, initiator_depth = 0, device_number = 0, counter_slot = 0;
  const char* state = "";  // "unconnected", "connecting", "connected", "disconnected"
};
struct EndpointRow {
  Handle id;
  Address local;
  bool closing = false;
  SessionId session{};
  Identity owner;
  std::string adapter;
  std::uint32_t connections = 0;
};
struct PortRow {
  Address local;
  std::string adapter;
  std::string kind;   // "listener", "connector", "shared endpoint", "lease", "reservation"
  std::string state;  // "held", "lingering", "reserved", "unheld" (a lease whose host port another has)
  Handle holder;
  std::optional<Identity> owner;  // Absent: no owner. A reservation has only the uid.
  std::string comment;            // The comment of a reservation, or the reason why a port is not held.
  std::uint32_t references = 0;
};
struct SessionRow {
  SessionId id{};
  Identity owner;
  Time opened;
  std::uint32_t connectors = 0, listeners = 0, shared_endpoints = 0, queue_pairs = 0;
  std::uint64_t operations = 0;
  std::uint32_t pending_operations = 0;
  std::string adapter;  // The first adapter that it opened; empty: none.
};
struct AdapterRow {
  provider::AdapterDescription description;
  bool enabled = true;
  std::uint32_t connections = 0, listeners = 0, ephemeral_used = 0;
};
struct Counters {
  std::uint64_t connect = 0, accept = 0, connect_failure = 0, connection_error = 0, active_connection = 0;
  std::vector<std::pair<StatusCode, std::uint64_t>> failures;  // Completions that were not SUCCESS.
  std::vector<std::pair<Detail, std::uint64_t>>
      refusals;  // Inbound requests that were refused here, by cause.
};

class Broker {
 public:
  static constexpr std::uint32_t kMaxObjects = 1u << 24;
  struct Options {
    std::uint32_t boot_epoch = 1;  // Differs from that of the previous process.
    std::uint64_t seed = 0;        // Chooses the port at which the search for ephemeral ports begins.
    Settings settings;
    // How many objects, waiting requests and operations of an ended session one step reclaims, until a
    // ReclaimSome gives another number.
    std::uint32_t reclaim_slice = 64;
    Policy policy;
    std::vector<provider::AdapterDescription> adapters;
    // Answers ResolveAddress; must behave as a pure function. Null: the first address of the same family.
    std::function<Result<Address>(const std::string& adapter, const Address& remote)> resolve;
    // Ports that processes held when the previous broker ended; kept for them until `leases_until`. Leases of
    // a missing adapter and contradictory leases are left out.
    std::vector<Lease> leases;
    // Until this time a client may also bring its connections back.
    Time leases_until{};
    // For this long after the broker ended a session, its user may bring connections back to the same broker.
    Duration grace{};
    // Null: no connection is taken back.
    Prove prove;
    // The user that the broker runs as. Its ephemeral ports are not shared with other users (fair_share.h).
    // Absent: all users share.
    std::optional<std::uint32_t> owner_uid;
    // The objects of all sessions together; a handle has no room for more than the default.
    std::uint32_t max_objects = kMaxObjects;
    // Tells whether the holder of a lease may still return; asked when another process wants the port. Must
    // behave as a pure function. Null: it may.
    std::function<bool(const Process&)> may_come_back;
    // Where clients find the objects that they may make ahead; outlives the broker. Null: they make none.
    SpareBoard* spares = nullptr;
  };

  explicit Broker(Options options);
  ~Broker();

  // Applies one event and appends the resulting actions.
  void Step(Time now, const Event& event, Actions* actions);
  // The time of the next Tick, if one is due.
  std::optional<Time> NextDeadline() const;

  std::vector<AdapterRow> Adapters() const;
  std::vector<ListenerRow> Listeners() const;
  std::vector<ConnectionRow> Connections() const;
  std::vector<QueuePairRow> QueuePairs() const;
  std::vector<EndpointRow> Endpoints() const;
  std::vector<PortRow> Ports() const;
  std::vector<SessionRow> Sessions() const;
  Counters counters() const;
  // The submission time of the oldest pending operation.
  std::optional<Time> OldestPending() const;
  bool draining() const;
  // True when a ReclaimSome is due: objects of ended sessions remain.
  bool reclaiming() const;
  // True also for an ended session that is being reclaimed.
  bool HasSession(SessionId session) const;
  // The bytes of completions that are kept for the sessions of this user.
  std::uint64_t BytesKeptFor(std::uint32_t uid) const;
  const Policy& policy() const;
  // The resources of this user.
  Quota::Usage UsageOf(std::uint32_t uid) const;
  // Absent: there is no such session.
  std::optional<Identity> OwnerOf(SessionId session) const;
  // The counter slot of the next queue pair of this session; 0: no such session.
  std::uint32_t NextCounterSlot(SessionId session) const;
  // The answer to the event ReservePort if the provider agrees: SUCCESS, SHARING_VIOLATION with the holder,
  // INVALID_ADDRESS, INVALID_PARAMETER. And ReleasePort: SUCCESS or INVALID_HANDLE.
  Status CheckReserve(const Address& local) const;
  Status CheckRelease(const Address& local) const;

  // Recounts every table and compares, for tests and the simulator. Returns one line per violation; empty
  // when all invariants hold.
  std::string CheckInvariants() const;
  // The places of the table of adapters, those of vanished ones included; for tests.
  std::size_t AdapterPlaces() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace nd::core
