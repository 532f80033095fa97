// SPDX-License-Identifier: Apache-2.0
// Child processes of a test. They die with it, whatever happens to it.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "base/unique_fd.h"

namespace nd::testing {

struct SpawnOptions {
  std::vector<std::string> arguments;    // [0] is the program's path.
  std::vector<std::string> environment;  // "NAME=value", added to ours.
  std::optional<uid_t> uid;
  int network_namespace = -1;  // Descriptor of a namespace to enter; borrowed.
  int descriptor3 = -1;        // Becomes descriptor 3 of the child; borrowed.
  std::string output;          // File for stdout and stderr; empty: ours.
};

class Process {
 public:
  Process() = default;
  static Process Spawn(const SpawnOptions& options);
  Process(Process&& other) noexcept;
  Process& operator=(Process&& other) noexcept;
  ~Process();  // SIGKILL and wait.

  pid_t pid() const { return pid_; }
  bool running();
  void Signal(int signal) const;
  void Pause() const;  // SIGSTOP, and every thread stands still.
  void Resume() const;
  void Kill();  // SIGKILL and wait.
  // Exit status as of waitpid once it ended by itself.
  std::optional<int> Wait(std::chrono::milliseconds timeout);

 private:
  pid_t pid_ = -1;
  std::optional<int> status_;
};

// Directory where this build's programs are: that of the running test, or $NDBROKER_BIN.
std::string BinaryDirectory();
// A new empty directory below $TMPDIR; RemoveTree deletes it.
std::string MakeTempDirectory(const std::string& prefix);
void RemoveTree(const std::string& path);
std::size_t CountDescriptors(pid_t pid);
// True as soon as `condition` is; false when `timeout` (Scaled) passed without.
template <typename F>
bool Eventually(F&& condition, std::chrono::milliseconds timeout = std::chrono::seconds(10));

// An eighth of what was waited already, from 1 to 25 ms: a look may cost more than what it waits for.
void NapBetweenPolls(std::chrono::steady_clock::duration waited);
// Time-outs of tests are for an ordinary machine; $NDBROKER_TIME_FACTOR says how many times longer things
// take here (an emulated machine). Never less than `timeout`.
std::chrono::milliseconds Scaled(std::chrono::milliseconds timeout);
template <typename F>
bool Eventually(F&& condition, std::chrono::milliseconds timeout) {
  const auto begin = std::chrono::steady_clock::now();
  for (;;) {
    if (condition()) return true;
    const auto waited = std::chrono::steady_clock::now() - begin;
    if (waited >= Scaled(timeout)) return false;
    NapBetweenPolls(waited);
  }
}

}  // namespace nd::testing
