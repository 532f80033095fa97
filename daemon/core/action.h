// SPDX-License-Identifier: Apache-2.0
// The actions that the core requests. The shell executes them in order; none calls back into the core.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "daemon/core/event.h"
#include "daemon/core/lease.h"
#include "daemon/core/record.h"

namespace nd::core {

// The one completion of an operation.
struct Complete : session::Completion {
  SessionId session;
};
// Take the transport from the connection manager and send it on the fd lane under `hand_off`. The Complete
// that refers to it follows in the same list. When the lane is gone, the shell answers with SessionClosed.
struct HandOffTo {
  SessionId session;
  CmId id;
  Handle connector;
  std::uint64_t hand_off = 0;
  ReadLimits limits;  // Final limits of this side, for the record.
  bool flush_on_peer_disconnect = false;
};
struct SendConnectEvent : ConnectEvent {
  SessionId session;
};
struct SendDisconnectEvent : DisconnectEvent {
  SessionId session;
};
struct SendTransportCommand : TransportCommand {
  SessionId session;
};
struct SendAdapterEvent : AdapterEvent {
  SessionId session;
};
// Ends this session, because it broke the protocol or by order of the administrator; SessionClosed follows.
struct EndSession {
  SessionId session;
  Status why;
};
// Commands for the wire; each is the ConnectionManager method of the same name.
struct CmReserve {
  EndpointId endpoint;
  std::string adapter;
  Address local;
  SessionId session{};   // The owner of the endpoint; none: a port without a user.
  bool listens = false;  // The endpoint is a listener's.
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
  // The Connect of this attempt; its client may have given a socket for it.
  SessionId session{};
  OpId op_id = 0;
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
// For the journal: a port has a holder now, its holder released it, or its former holder did not return in
// time.
struct LeaseTaken {
  Lease lease;
};
struct LeaseFreed {
  std::string adapter;
  Address local;
};
// The answer to a ReservePort: SUCCESS, a status of Broker::CheckReserve or of the provider, or CANCELED when
// the reservation was released before the provider answered.
struct ReserveDone {
  std::uint64_t request = 0;
  Status status;
};
// A fact for operators: a log line and a watch event.
struct Notice {
  enum class Level { kInfo, kWarning };
  Level level = Level::kInfo;
  std::string_view type;  // "connection.connected": a constant of the program.
  std::string object;     // The id that ndctl shows.
  std::string message;
};

using Action = std::variant<Complete, HandOffTo, SendConnectEvent, SendDisconnectEvent, SendTransportCommand,
                            SendAdapterEvent, EndSession, CmReserve, CmRelease, CmListen, CmUnlisten,
                            CmConnect, CmAccept, CmReject, CmConfirm, CmPrepared, CmAbort, CmDisconnect,
                            Notice, ConnectionRecord, LeaseTaken, LeaseFreed, ReserveDone>;
using Actions = std::vector<Action>;

}  // namespace nd::core
