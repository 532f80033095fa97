// SPDX-License-Identifier: Apache-2.0
// The checks of `ndctl doctor` on this host: Gather() collects facts, and pure functions judge them.
//
// Gather() reads /proc, /sys and the socket directories and changes nothing.
#pragma once

#include <cstdint>
#include <istream>
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
  std::uint32_t owner = 0, mode = 0;
  SocketFact admin, broker, lane;
};

// How the system starts and confines a broker.
struct ServiceFact {
  bool unit_installed = false, unit_enabled = false;
  std::vector<std::string> drop_ins;  // Files that change the unit.
  std::string broker_unit;            // The unit of the broker's process; empty: none or unknown.
  bool sandbox_known = false;         // True when the next three settings could be read.
  bool filters_system_calls = false, no_new_privileges = false;
  std::uint64_t capabilities = 0;
};

struct PackageFact {
  std::string name, version;  // "libndbroker1", "0.1.0-1"
  bool whole = true;          // Unpacked and configured.
};

struct Facts {
  std::uint32_t uid = 0;
  ServiceFact service;
  std::vector<PackageFact> packages;  // The Debian packages of ndbroker.
  DirectoryFact chosen;
  std::vector<DirectoryFact> others;       // Other directories in which a broker may be.
  std::vector<std::uint32_t> broker_pids;  // Every ndbrokerd that this process can see.
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

// The answers of the broker, when it answered.
struct BrokerFacts {
  bool answers = false;
  std::string problem, hint;  // The reason why it did not answer.
  std::string version;
  std::uint32_t pid = 0;
  double uptime = 0;
  bool draining = false;
  std::string network;  // As Facts::own_network, of the broker's process.
};

Facts Gather(const std::string& directory);
// The service, the sandbox and the rights of process `pid` (0: no broker).
ServiceFact GatherService(std::uint32_t pid);
// From the text of dpkg's status file. Pure.
std::vector<PackageFact> PackagesIn(std::istream& status);
std::string NetworkOf(std::uint32_t pid);  // 0: of this process.

std::vector<Verdict> Judge(const Facts& facts, const BrokerFacts& broker);
// The answer of the broker; `pids`: brokers that run on this host.
Verdict JudgeBroker(const std::vector<std::uint32_t>& pids, const BrokerFacts& broker);

// Every check of this system; `directory` is the broker's.
std::vector<Verdict> ExamineHost(const std::string& directory, const BrokerFacts& broker);
// The system, for a report: its name, and what it says about memory, limits and the network.
std::string DescribeHost();

}  // namespace nd::cli
