// SPDX-License-Identifier: Apache-2.0
// What `ndctl doctor` looks at from the client's side: facts first, then pure judgement of each.
//
// Gather() reads /proc, /sys and the socket directories and changes nothing; the judges are pure.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

namespace nd::cli {

struct Verdict {
  std::string name;     // "sockets"
  std::string verdict;  // "PASS", "WARN", "FAIL".
  std::string finding;
  std::string remedy;  // Empty with PASS.
};

enum class SocketState { kAbsent, kAnswers, kStale, kForbidden, kSilent };

struct SocketFact {
  std::string path;
  SocketState state = SocketState::kAbsent;
};

struct DirectoryFact {
  std::string path;
  bool exists = false, is_directory = false, is_link = false;
  uid_t owner = 0;
  mode_t mode = 0;
  SocketFact admin, broker, lane;
};

struct Facts {
  uid_t uid = 0;
  DirectoryFact chosen;
  std::vector<DirectoryFact> others;       // Where a broker could be as well.
  std::vector<std::uint32_t> broker_pids;  // Of every ndbrokerd that this process can see.
  std::string ndctl_version;
  std::vector<std::string> libraries;  // Versions of installed libndbroker.so.
  std::uint64_t memlock = 0;           // UINT64_MAX: no limit.
  std::uint64_t descriptors = 0;
  std::vector<std::string> rdma_devices;  // Names in /sys/class/infiniband.
  bool verbs_nodes = false, verbs_usable = false, cm_node = false, cm_usable = false;
  std::string rdma_namespaces;  // "exclusive", "shared" or empty.
  std::string own_network;      // "net:[4026531840]"; empty: unknown.
  bool clock_synchronized = true;
  bool sealed_memory = true;
};

// What the broker said of itself, when it answered.
struct BrokerFacts {
  bool answers = false;
  std::string problem, hint;  // Why it did not.
  std::string version;
  std::uint32_t pid = 0;
  double uptime = 0;
  bool draining = false;
  std::string network;  // As Facts::own_network, of the broker's process.
};

Facts Gather(const std::string& directory);
std::string NetworkOf(std::uint32_t pid);  // 0: of this process.

std::vector<Verdict> Judge(const Facts& facts, const BrokerFacts& broker);

}  // namespace nd::cli
