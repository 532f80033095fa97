// SPDX-License-Identifier: Apache-2.0
// Judges the health of the broker: a pure function of gathered facts.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "daemon/state/history.h"
#include "daemon/state/journal.h"

namespace nd::service {

struct HealthFacts {
  bool grpc = true;  // gRPC is served to applications.
  struct Adapter {
    std::string name, provider;
    bool enabled = true;
    std::size_t addresses = 0;
    std::string problem{};  // The reason why the adapter does not work and its remedy, from the provider.
    bool pins_memory = false;
  };
  struct Usage {  // The usage of one user.
    std::uint32_t uid = 0;
    const char* resource = "";
    std::uint32_t used = 0, limit = 0;
  };
  struct Port {  // A TCP port that peers must be able to reach.
    std::string address;
    int error = 0;  // errno of a connect() from this host; 0 when it was accepted.
  };
  struct File {
    std::string path;
    int error = 0;  // errno of stat().
    std::uint32_t uid = 0, mode = 0;
    std::uint64_t bytes = 0;
  };

  std::string version;
  std::uint64_t fds_open = 0, fd_limit = 0;
  std::uint64_t fds_wanted = 0;  // The maximum that the configured limits add, without established sessions.
  std::optional<std::uint64_t> memlock;  // Bytes; absent: unlimited.
  std::uint32_t own_uid = 0;
  File directory;
  std::vector<File> sockets;
  std::vector<Adapter> adapters;
  std::optional<bool> initial_network;  // Absent when the kernel does not allow the check.
  Duration suspended{};                 // Since boot.
  bool clock_is_set = true;             // The time of day is later than the release of this program.
  std::string log_level;
  std::vector<Usage> near_quota;  // At least nine tenths of the quota is used.
  std::vector<Port> ports;
  bool peer_pidfd = true;
  std::vector<File> devices;  // Below /dev/infiniband.
  Duration longest_stall{};   // The longest round of the loop since the start.
  state::JournalState journal;
  File journal_file;
  std::optional<state::HistoryState> history;  // Absent: switched off.
  File history_file;                           // Includes its write-ahead log.
};

struct Finding {
  enum class Verdict { kPass, kWarn, kFail };
  std::string name;
  Verdict verdict = Verdict::kPass;
  std::string finding;
  std::string remedy;  // Empty with kPass.
};
const char* Name(Finding::Verdict verdict);

// Returns at least one finding for each subject, always in the same order.
std::vector<Finding> Judge(const HealthFacts& facts);

}  // namespace nd::service
