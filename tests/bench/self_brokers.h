// SPDX-License-Identifier: Apache-2.0
// Brokers of our own in a temporary directory: one for local, one on each of two loopback addresses for
// iwarp.
#pragma once

#include <memory>
#include <string>

#include "nd/status.h"
#include "tests/bench/options.h"
#include "tests/bench/process.h"

namespace nd::perf {

class SelfBrokers {
 public:
  static constexpr char kClientIp[] = "127.0.0.2";
  static constexpr char kServerIp[] = "127.0.0.3";

  SelfBrokers() = default;
  ~SelfBrokers();  // Ends them and removes the directory.
  // Returns when they accept clients.
  Status Start(const Options& options, const std::string& own_program);

  std::string client_directory() const { return root_ + "/a"; }
  std::string server_directory() const { return two_ ? root_ + "/b" : client_directory(); }

 private:
  Status StartOne(const std::string& daemon, const std::string& directory, const char* ip, int tcp_port,
                  bool crc, std::optional<int> cpu, Process* process);
  std::string root_;
  bool two_ = false;
  Process first_, second_;
};

}  // namespace nd::perf
