// SPDX-License-Identifier: Apache-2.0
// A real ndbrokerd with a configuration of its own in a directory of its own. One thread.
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "nd/status.h"
#include "tests/testing/probe.h"
#include "tests/testing/process.h"

namespace nd::testing {

struct DaemonOptions {
  // Section -> its lines, e.g. {"compat", "bad-network-name = true"}.
  std::map<std::string, std::string> sections{};
  std::vector<std::string> adapters{};  // Body of each [[adapter]].
  std::vector<std::string> rules{};     // Body of each [[rule]].
  int network_namespace = -1;
  std::optional<std::uint32_t> uid{};  // Of the broker.
  int nice = 0;                        // Of its first thread.
};

// The counts that must be equal before and after a case.
struct Counts {
  std::uint64_t sessions = 0, connections = 0, listeners = 0, endpoints = 0, queue_pairs = 0, ports = 0;
  std::uint64_t descriptors = 0, handshakes = 0;
  friend bool operator==(const Counts&, const Counts&) = default;
  std::string ToString() const;
};

class Daemon {
 public:
  explicit Daemon(DaemonOptions options);
  ~Daemon();
  Daemon(const Daemon&) = delete;
  Daemon& operator=(const Daemon&) = delete;

  // Starts and waits until the admin service answers; false: see log().
  bool Start();
  // The two halves of Start(), to start several brokers at once.
  void Launch();
  bool AwaitReady();
  bool Stop();  // SIGTERM; true when it ended with 0.
  void Kill();  // SIGKILL.
  bool running() { return process_.running(); }
  // The signal that ended it; 0: it runs, or ended by itself.
  int EndedBySignal();
  pid_t pid() const { return process_.pid(); }
  // Stops every thread of it, or lets them go on.
  void Pause(bool pause) { pause ? process_.Pause() : process_.Resume(); }
  // The directory of its sockets.
  std::string directory() const { return directory_ + "/run"; }
  const DaemonOptions& options() const { return options_; }
  std::string log() const;

  // Writes the configuration again; Reload() makes the daemon read it.
  void Configure(DaemonOptions options);
  Status Reload();

  Flat Admin(const std::string& method, const std::string& request = "") {
    return Probe::Get().Admin(directory(), method, request);
  }
  // Makes a change through the admin service; returns its ND status.
  Status Change(const std::string& method, const std::string& request);
  Status SkipTime(std::chrono::milliseconds by);
  Status SetAdapter(const std::string& name, bool enabled);
  Counts Count();
  // Output of ndctl with these words; its exit status in *exit_status.
  std::string Ndctl(const std::string& arguments, int* exit_status = nullptr);

 private:
  // Lets every user read the directory, and `uid`, if there is one, own it.
  static void GiveDirectory(const std::string& path, std::optional<std::uint32_t> uid);
  // False: a client would wait for a socket that is not there yet.
  static bool MayListen(const std::string& socket);
  void WriteConfig();
  DaemonOptions options_;
  std::string directory_;
  Process process_;
};

}  // namespace nd::testing
