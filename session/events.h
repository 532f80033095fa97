// SPDX-License-Identifier: Apache-2.0
// The messages of the broker: the completion of each operation, events, and the end of the session.
// proto/ndbroker/v1/session.proto says what each field means.
#pragma once

#include <cstdint>
#include <string>
#include <tuple>
#include <variant>
#include <vector>

#include "nd/status.h"
#include "nd/types.h"
#include "session/handle.h"
#include "session/operations.h"

namespace nd::session {

// The results of a successful operation; only the fields of that operation are set.
struct Reply {
  Handle handle;
  Address address;
  Address peer;  // With hand_off: the client needs it to re-attach the connection to a new broker.
  ReadLimits limits;
  Bytes private_data;
  std::uint64_t hand_off = 0;
  Bytes proof;                              // With hand_off: the client shows it in Reattach.
  std::uint32_t disconnect_timeout_ms = 0;  // With hand_off: how long a Disconnect waits for the peer.
  std::uint32_t counter_slot = 0;
  Handle queue_pair;  // Reattach: the queue pair that it made.
  std::vector<AdapterInfo> adapters;
  // Hello
  std::uint32_t version = 0;
  std::uint64_t boot_epoch = 0;
  std::string broker_version;
};

// The answer to an operation.
struct Completion {
  OpId op_id = 0;
  Status status;
  Reply reply;
};

struct ConnectEvent {
  Handle listener, connector;
};

struct DisconnectEvent {
  Handle connector;
  DisconnectReason reason = DisconnectReason::kUnknown;
};

struct TransportCommand {
  enum class What : std::uint32_t { kUnspecified, kDisconnect, kDrop, kPrepare };
  Handle connector;
  What what = What::kUnspecified;
  DisconnectReason reason = DisconnectReason::kUnknown;
  std::uint32_t timeout_ms = 0;
  Bytes attributes{};  // kPrepare
};

struct AdapterEvent {
  enum class What : std::uint32_t { kUnspecified, kRemoved, kDisabled, kEnabled };
  Handle adapter;
  What what = What::kUnspecified;
};

// The last message on the fd lane when the broker ends the session.
struct SessionEnd {
  Status status;
};

inline constexpr std::tuple kServerMessages{
    Case<Completion>{1, "completion", "Completion"},
    Case<ConnectEvent>{2, "connect_event", "ConnectEvent"},
    Case<DisconnectEvent>{3, "disconnect_event", "DisconnectEvent"},
    Case<TransportCommand>{4, "transport_command", "TransportCommand"},
    Case<AdapterEvent>{5, "adapter_event", "AdapterEvent"},
    Case<SessionEnd>{6, "session_end", "SessionEnd"}};

using ServerMessage = VariantOfRows<decltype(kServerMessages)>::Type;

}  // namespace nd::session
