// SPDX-License-Identifier: Apache-2.0
// What travels between a session and the broker, as plain values: proto/ndbroker/v1/session.proto without
// its generated types, which stay inside message_codec.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "nd/status.h"
#include "nd/types.h"
#include "provider/hand_off.h"

namespace nd::client {

enum class OpKind : std::uint8_t {
  kHello,
  kListAdapters,
  kOpenAdapter,
  kResolveAddress,
  kCheckAddress,
  kCreateQueuePair,
  kCreateConnector,
  kCreateListener,
  kCreateSharedEndpoint,
  kClose,
  kBind,
  kConnect,
  kCompleteConnect,
  kAccept,
  kReject,
  kGetReadLimits,
  kGetPrivateData,
  kGetLocalAddress,
  kGetPeerAddress,
  kNotifyDisconnect,
  kDisconnect,
  kCancel,
  kListen,
  kControlConnectEvents,
  kGetConnectionRequest,
  kTransportReport,
  kReattach,
};

enum class ReportWhat : std::uint8_t { kPeerClosed = 1, kDisconnectDone = 2, kPrepared = 3 };

// One operation. Only the fields that its kind has are looked at.
struct Op {
  Op() = default;
  explicit Op(OpKind what_kind, std::uint64_t on = 0) : kind(what_kind), handle(on) {}

  OpKind kind = OpKind::kListAdapters;
  std::uint64_t id = 0;               // Given by the session.
  std::uint64_t handle = 0;           // What it works on: an adapter for Create..., else the object itself.
  std::uint64_t queue_pair = 0;       // Connect, Accept, Reattach
  std::uint64_t connector = 0;        // GetConnectionRequest
  std::uint64_t shared_endpoint = 0;  // Connect
  std::optional<Address> local;  // Bind, Listen, Create..., Open..., CheckAddress, Reattach; Connect's source
  std::optional<Address> remote;  // Connect, ResolveAddress, Reattach
  ReadLimits limits;              // Connect, Accept, Reattach
  std::vector<std::byte> data;    // Connect, Accept, Reject
  std::string text;               // Hello: application; OpenAdapter: name
  std::string token;              // Hello
  std::uint32_t receive_depth = 0, initiator_depth = 0, device_number = 0;  // CreateQueuePair
  std::uint32_t backlog = 0;                                                // Listen
  bool ndk = false;                                                         // Close: NDK lifetime
  bool events = false;   // CompleteConnect, Accept: disconnect event; Listen: connect events
  bool pause = false;    // ControlConnectEvents
  bool passive = false;  // Reattach
  ReportWhat what = ReportWhat::kPeerClosed;             // TransportReport
  DisconnectReason reason = DisconnectReason::kUnknown;  // TransportReport
  Status status;                                         // TransportReport
};

// The one answer to an operation. `transport` is filled by the session from the fd lane.
struct Reply {
  std::uint64_t id = 0;
  Status status;
  std::uint64_t handle = 0;
  Address address, peer;
  ReadLimits limits;
  std::vector<std::byte> private_data;
  std::uint64_t hand_off = 0;
  std::vector<AdapterInfo> adapters;
  std::uint32_t version = 0;
  std::uint64_t boot_epoch = 0;
  std::uint32_t counter_slot = 0;
  std::string broker_version;
  std::optional<provider::HandOff> transport;
};

struct ConnectEvent {
  std::uint64_t listener = 0, connector = 0;
};
struct DisconnectEvent {
  std::uint64_t connector = 0;
  DisconnectReason reason = DisconnectReason::kUnknown;
};
struct TransportCommand {
  enum class What { kDisconnect, kDrop, kPrepare };
  std::uint64_t connector = 0;
  What what = What::kDisconnect;
  DisconnectReason reason = DisconnectReason::kUnknown;
  std::uint32_t timeout_ms = 0;
  std::vector<std::uint8_t> attributes{};  // kPrepare: the provider's.
};

// The session's adapter was disabled or removed.
struct AdapterGone {};

using Incoming = std::variant<Reply, ConnectEvent, DisconnectEvent, TransportCommand, AdapterGone>;

}  // namespace nd::client
