// SPDX-License-Identifier: Apache-2.0
// Traffic and outcomes of connections by application, peer and adapter: totals of live and ended connections
// together, which never decrease regardless of the values in a counters page.
//
// One thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "daemon/metrics/histogram.h"
#include "daemon/metrics/ledger.h"
#include "nd/status.h"
#include "nd/types.h"

namespace nd::ops {

// The owner of a connection, as shown to people and dashboards.
struct Who {
  std::string application;  // The name that it gave, or its command name.
  std::uint32_t uid = 0;
  std::string unit, container;  // From the cgroup; empty when there is none.
  friend auto operator<=>(const Who&, const Who&) = default;
};
struct LinkKey {
  std::string adapter, transport;
  friend auto operator<=>(const LinkKey&, const LinkKey&) = default;
};

// The key of failed attempts and ended connections: {adapter, role or outcome, stage, status, detail}.
struct FailureKey {
  std::string adapter;
  bool passive = false;
  std::string stage;
  StatusCode status{};
  Detail detail{};
  friend auto operator<=>(const FailureKey&, const FailureKey&) = default;
};
struct EndKey {
  std::string adapter, outcome;
  Detail detail{};
  friend auto operator<=>(const EndKey&, const EndKey&) = default;
};

class Tallies {
 public:
  struct Connection {
    std::uint64_t id = 0, session = 0;
    std::optional<std::uint32_t> slot;
    Address local, peer;
    bool passive = false;
    // It was established before the restart of the broker, which counted its earlier traffic.
    bool reattached = false;
    Time since{};
    Who who;
    LinkKey link;
  };
  // A row of the list of live connections.
  struct Live {
    std::uint64_t id = 0, session = 0;
    std::optional<std::uint32_t> slot;
    Address local, peer;
    bool passive = false, settling = false;
    Time since{}, read{};
    std::shared_ptr<const Who> who;
    std::shared_ptr<const LinkKey> link;
    Flow flow{};  // Since the broker knows the connection; as of the last reading.

   private:
    friend class Tallies;
    Flow last{};
    Row *of_who = nullptr, *of_link = nullptr, *of_peer = nullptr;
  };
  struct Total {  // Sums over everything; never lose a key.
    std::map<FailureKey, std::uint64_t> failures;
    std::map<EndKey, std::uint64_t> ends;
    std::uint64_t implausible = 0;  // Readings that no hardware can have counted.
  };

  Tallies();

  void SessionOpened(std::uint64_t session, const Who& who, Time now);
  void SessionClosed(std::uint64_t session);
  // `start`: the counters at this moment, before any traffic.
  void Established(const Connection& connection, const Flow& start);
  // Counts an attempt that was never established, with the phase `stage` of its handshake.
  void Failed(const Connection& connection, std::string stage, const Status& why, Time now);
  // Counts the end of an established connection; `last` is the final content of its page.
  void Ended(std::uint64_t id, const std::string& outcome, bool broken, Detail detail, const Flow& last,
             Time now);
  // Adds the traffic of live connections since the last reading.
  using Reader = std::function<std::optional<Flow>(std::uint64_t session, std::uint32_t slot)>;
  void Read(Time now, const Reader& reader);

  const Ledger<Who>& applications() const { return applications_; }
  const Ledger<std::string>& peers() const { return peers_; }
  const Ledger<LinkKey>& links() const { return links_; }
  const Total& total() const { return total_; }
  std::vector<Live> live() const;
  std::size_t live_count() const { return live_.size(); }

 private:
  void Add(Live& live, const Flow& now, Time time);

  Ledger<Who> applications_;
  Ledger<std::string> peers_;
  Ledger<LinkKey> links_;
  Total total_;
  std::unordered_map<std::uint64_t, Live> live_;
  std::unordered_map<std::uint64_t, Row*> sessions_;
};

}  // namespace nd::ops
