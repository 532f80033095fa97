// SPDX-License-Identifier: Apache-2.0
// All statistics of the broker in one place, and snapshots of them (Picture).
//
// Loop thread, except for the pictures, which any thread may read.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/event_loop.h"
#include "daemon/core/broker.h"
#include "daemon/metrics/admin_tally.h"
#include "daemon/metrics/tallies.h"
#include "daemon/service/door.h"
#include "daemon/service/reaper.h"
#include "daemon/shell/record_sink.h"
#include "daemon/state/history.h"
#include "daemon/state/journal.h"

namespace nd::service {

class BrokerShell;

// The outcomes of the operations of one kind.
struct OperationTally {
  ops::Histogram duration;
  std::map<std::pair<StatusCode, Detail>, std::uint64_t> answers;
};

inline constexpr std::size_t kOperations = session::kOperationCount;
// Returns a name such as "Connect", as in proto/ndbroker/v1/session.proto.
const char* OperationName(std::size_t kind);

// The statistics of one moment.
struct Picture {
  Time at;
  std::vector<std::pair<std::shared_ptr<const ops::Who>, ops::Row>> applications;
  std::vector<std::pair<std::shared_ptr<const std::string>, ops::Row>> peers;
  std::vector<std::pair<std::shared_ptr<const ops::LinkKey>, ops::Row>> links;
  ops::Tallies::Total total;
  std::vector<ops::Tallies::Live> live;  // Filled only on request.
  std::size_t connections = 0, sessions = 0;
  // [0] active, [1] passive; for each phase, and for the whole handshake.
  std::array<std::array<ops::Histogram, core::kPhases>, 2> phases;
  std::array<ops::Histogram, 2> handshakes;
  ops::Histogram lifetime;  // Of ended connections; in seconds times 1000, see kLifetimeUnit.
  std::array<OperationTally, kOperations> operations;
  std::map<StatusCode, std::uint64_t> session_ends;
  std::uint64_t sessions_opened = 0;
  AdminTally::Counts admin_calls;
  ops::Doors doors;

  core::Counters counters;
  std::vector<core::AdapterRow> adapters;
  struct Listening {
    std::uint32_t listeners = 0, backlog_used = 0, backlog_limit = 0;
  };
  std::map<std::string, Listening> listening;                       // By adapter.
  std::vector<std::pair<std::uint32_t, core::Quota::Usage>> usage;  // By user.
  bool draining = false;
  std::optional<Duration> oldest_pending;
  std::uint64_t pending_operations = 0;
  std::uint32_t handshakes_in_progress = 0;
  state::JournalState journal;
  std::optional<state::HistoryState> history;
  EventLoop::Rounds rounds;
  Reaper::State reaper;
  std::size_t descriptors_in_flight = 0;
  Duration taking{};  // The time that the loop took to make this picture.

  // Returns an empty text when ready, otherwise the reason in one sentence.
  std::string NotReady() const;
};

class Observatory final : public RecordSink {
 public:
  // `history` is null when there is none.
  Observatory(EventLoop& loop, BrokerShell& shell, const state::History* history, const AdminTally& admin)
      : loop_(loop), shell_(shell), history_(history), admin_(admin) {}

  void OnRecord(const core::ConnectionRecord& record, std::string_view transport,
                const Traffic& traffic) override;
  void OnOperation(std::size_t kind, const Status& status, Duration took) override;
  void OnSession(core::SessionId session, const core::Identity& who) override;
  void OnSessionEnd(core::SessionId session, const Status& why) override;

  // `with_live` adds every live connection.
  std::shared_ptr<const Picture> Take(bool with_live);

 private:
  EventLoop& loop_;
  BrokerShell& shell_;
  const state::History* const history_;
  const AdminTally& admin_;
  ops::Tallies tallies_;
  std::array<std::array<ops::Histogram, core::kPhases>, 2> phases_;
  std::array<ops::Histogram, 2> handshakes_;
  ops::Histogram lifetime_;
  std::array<OperationTally, kOperations> operations_;
  std::map<StatusCode, std::uint64_t> session_ends_;
  std::uint64_t sessions_opened_ = 0;
};

// Lifetimes are divided by 1000, so that the same buckets cover 10 ms to almost 3 hours.
inline constexpr int kLifetimeUnit = 1000;

}  // namespace nd::service
