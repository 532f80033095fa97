// SPDX-License-Identifier: Apache-2.0
// The record of one connection, for history, histograms and `ndctl trace`. Plain values.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <string>

#include "base/clock.h"
#include "daemon/core/event.h"
#include "daemon/core/ids.h"
#include "nd/status.h"
#include "nd/types.h"
#include "provider/cm.h"

namespace nd::core {

// Steps of a handshake in the order in which they end; each lasts from the end of the one before that was
// reached. Names as in proto/ndbroker/v1/admin.proto, message Phase.
enum class Phase { kQueue, kConnect, kReply, kComplete, kDeliver, kAccept, kEstablish };
inline constexpr std::size_t kPhases = 7;
const char* PhaseName(Phase phase);

struct PhaseTimes {
  Time began;
  std::array<std::optional<Time>, kPhases> ended;
  void End(Phase phase, Time now) { ended[static_cast<std::size_t>(phase)] = now; }
};

// An action, emitted once when a connection is established and once when the connection or attempt ends.
// kClosed: either application disconnected, or the broker stopped and the connection continues without it.
// kFailed: never established. kBroken: ended without a disconnect. kKilled: by the administrator. kDied: its
// application ended.
struct ConnectionRecord {
  enum class Outcome { kEstablished, kClosed, kFailed, kBroken, kKilled, kDied };
  Outcome outcome = Outcome::kEstablished;
  Handle id;
  SessionId session{};
  std::shared_ptr<const Identity> owner;
  std::string adapter;
  Address local, peer;
  bool passive = false;
  ReadLimits limits;
  std::optional<std::uint32_t> counter_slot;  // Of its queue pair.
  PhaseTimes phases;
  std::optional<Time> established, ended;
  Status why;  // SUCCESS, or how it failed or broke.
  DisconnectReason reason = DisconnectReason::kUnknown;
};
// "closed", as in proto/ndbroker/v1/admin.proto, message HistoryRow.
const char* OutcomeName(ConnectionRecord::Outcome outcome);

}  // namespace nd::core
