// SPDX-License-Identifier: Apache-2.0
// Child processes of a test. They end with it, even when it is killed.
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
  // Starts a program of BinaryDirectory(), as this user unless `uid` is given.
  static Process OfThisBuild(const std::string& program, std::vector<std::string> arguments,
                             std::optional<uid_t> uid = {});
  Process(Process&& other) noexcept;
  Process& operator=(Process&& other) noexcept;
  ~Process();  // SIGKILL and wait.

  pid_t pid() const { return pid_; }
  bool running();
  void Signal(int signal) const;
  void Pause() const;  // SIGSTOP; returns when every thread has stopped.
  void Resume() const;
  void Kill();  // SIGKILL and wait.
  // The exit status, as from waitpid, once the process has ended by itself.
  std::optional<int> Wait(std::chrono::milliseconds timeout);

 private:
  pid_t pid_ = -1;
  std::optional<int> status_;
};

// The directory of the programs of this build: that of the running test, or $NDBROKER_BIN.
std::string BinaryDirectory();
// A new empty directory below $TMPDIR; RemoveTree deletes it.
std::string MakeTempDirectory(const std::string& prefix);
void RemoveTree(const std::string& path);
std::size_t CountDescriptors(pid_t pid);
// Returns true as soon as `condition` is true; false after Scaled(timeout).
template <typename F>
bool Eventually(F&& condition, std::chrono::milliseconds timeout = std::chrono::seconds(10));

// Sleeps an eighth of the time waited so far, from 1 to 25 ms, because a poll may be expensive.
void NapBetweenPolls(std::chrono::steady_clock::duration waited);
// Scales a time-out of an ordinary machine by $NDBROKER_TIME_FACTOR, for slow machines such as emulated ones.
// Never returns less than `timeout`.
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
