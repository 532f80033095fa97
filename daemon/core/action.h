// SPDX-License-Identifier: Apache-2.0
// Everything that the core can ask of the world. Executed in order; none of them calls back into the core.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "daemon/core/event.h"
#include "daemon/core/lease.h"
#include "daemon/core/record.h"

namespace nd::core {

// What a successful operation returns beside its status; only the fields that the operation has.
struct Reply {
  Handle handle;
  Address address;
  Address peer;  // With hand_off: what the client needs to bring the connection back to a new broker.
  ReadLimits limits;
  Bytes private_data;
  std::uint64_t hand_off = 0;
  std::uint32_t counter_slot = 0;
  std::vector<AdapterInfo> adapters;
};

// The one completion of an operation.
struct Complete {
  SessionId session;
  OpId op_id = 0;
  Status status;
  Reply reply;
};
// Take the transport from the connection manager and send it on the fd lane under `hand_off`. The Complete
// that mentions it follows in the same list. Failure (no descriptors, lane gone) is the shell's to answer
// with SessionClosed.
struct HandOffTo {
  SessionId session;
  CmId id;
  Handle connector;
  std::uint64_t hand_off = 0;
  ReadLimits limits;  // Final limits of this side, for the record.
  bool flush_on_peer_disconnect = false;
};
struct SendConnectEvent {
  SessionId session;
  Handle listener, connector;
};
struct SendDisconnectEvent {
  SessionId session;
  Handle connector;
  DisconnectReason reason;
};
struct SendTransportCommand {
  enum class What { kDisconnect, kDrop, kPrepare };
  SessionId session;
  Handle connector;
  What what = What::kDisconnect;
  DisconnectReason reason = DisconnectReason::kUnknown;
  std::uint32_t timeout_ms = 0;
  Bytes attributes{};  // kPrepare
};
struct SendAdapterEvent {
  enum class What { kRemoved, kDisabled, kEnabled };
  SessionId session;
  Handle adapter;
  What what = What::kRemoved;
};
// End this session (it broke the protocol, or the administrator said so); SessionClosed will follow.
struct EndSession {
  SessionId session;
  Status why;
};
// The wire; each as the ConnectionManager method of the same name.
struct CmReserve {
  EndpointId endpoint;
  std::string adapter;
  Address local;
};
struct CmRelease {
  EndpointId endpoint;
};
struct CmListen {
  EndpointId endpoint;
  std::string adapter;
  Address local;
};
struct CmUnlisten {
  EndpointId endpoint;
};
struct CmConnect {
  provider::ConnectParams params;
};
struct CmAccept {
  CmId id;
  provider::AcceptParams params;
};
struct CmReject {
  CmId id;
  Detail detail;
  Bytes private_data;
};
struct CmConfirm {
  CmId id;
};
struct CmPrepared {
  CmId id;
  Status status;
};
struct CmAbort {
  CmId id;
};
struct CmDisconnect {
  CmId id;
};
// A port has a holder now, or its holder gave it back (or did not come back for it): for the journal.
struct LeaseTaken {
  Lease lease;
};
struct LeaseFreed {
  std::string adapter;
  Address local;
};
// The one answer to a ReservePort: SUCCESS, the statuses of Broker::CheckReserve, what the provider said, or
// CANCELED when it was taken back before the provider had answered.
struct ReserveDone {
  std::uint64_t request = 0;
  Status status;
};
// Something worth telling an operator: log line, watch event.
struct Notice {
  enum class Level { kInfo, kWarning };
  Level level = Level::kInfo;
  std::string type;    // "connection.connected"
  std::string object;  // Id as ndctl shows it.
  std::string message;
};

using Action = std::variant<Complete, HandOffTo, SendConnectEvent, SendDisconnectEvent, SendTransportCommand,
                            SendAdapterEvent, EndSession, CmReserve, CmRelease, CmListen, CmUnlisten,
                            CmConnect, CmAccept, CmReject, CmConfirm, CmPrepared, CmAbort, CmDisconnect,
                            Notice, ConnectionRecord, LeaseTaken, LeaseFreed, ReserveDone>;
using Actions = std::vector<Action>;

}  // namespace nd::core
