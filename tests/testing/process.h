// SPDX-License-Identifier: Apache-2.0
// Child processes of a test. They end with it, even when it is killed.
#pragma once

#include <sys/types.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/unique_fd.h"

namespace nd::testing {

struct SpawnOptions {
  std::vector<std::string> arguments;    // [0] is the program's path.
  std::vector<std::string> environment;  // "NAME=value", added to ours.
  std::optional<std::uint32_t> uid;      // Linux.
  int nice = 0;                          // Linux: of the first thread alone, as in the unit of the package.
  int network_namespace = -1;            // Linux: descriptor of a namespace to enter; borrowed.
  int descriptor3 = -1;                  // Becomes OwnDescriptor3() of the child; borrowed.
  std::string output;                    // File for stdout and stderr; empty: ours.
};

class Process {
 public:
  Process() = default;
  static Process Spawn(const SpawnOptions& options);
  // Starts a program of BinaryDirectory(), as this user unless `uid` is given.
  static Process OfThisBuild(const std::string& program, std::vector<std::string> arguments,
                             std::optional<std::uint32_t> uid = {});
  Process(Process&& other) noexcept;
  Process& operator=(Process&& other) noexcept;
  ~Process();  // SIGKILL and wait.

  pid_t pid() const { return pid_; }
  bool running();
  void Signal(int signal) const;  // Linux.
  void AskToEnd() const;          // SIGTERM, or the console event that means the same.
  void Pause() const;             // SIGSTOP; returns when every thread has stopped.
  void Resume() const;
  void Kill();  // SIGKILL and wait.
  // The status for ExitCode() and FatalSignal(), on Linux that of waitpid, once the process has ended.
  std::optional<int> Wait(std::chrono::milliseconds timeout);

 private:
  pid_t pid_ = -1;
  std::optional<int> status_;
};

// The exit code of a process that ended by itself; absent: it was killed, or a fault ended it.
std::optional<int> ExitCode(int status);
// The signal that ended it; 0: it ended by itself. On Windows any number but 0 is a fault or a kill.
int FatalSignal(int status);

// The descriptor that the parent gave this process as SpawnOptions::descriptor3.
int OwnDescriptor3();
bool HasFork();
// A write to a stream whose reader has gone is an error of the call from now on, and no signal.
void IgnoreBrokenStreams();

// The directory of the programs of this build: that of the running test, or $NDBROKER_BIN.
std::string BinaryDirectory();
// A new empty directory below $TMPDIR; RemoveTree deletes it.
std::string MakeTempDirectory(const std::string& prefix);
void RemoveTree(const std::string& path);
// Of this process; null: not set. No other thread uses the environment meanwhile.
void SetVariable(const char* name, const char* value);
// 0: the system does not tell.
std::size_t CountDescriptors(pid_t pid);
// The limit of open files becomes as high as this user may set it, up to some hundred thousand. Returns it.
std::size_t AllowManyDescriptors();
// Returns true as soon as `condition` is true; false after Scaled(timeout). One poll counts as a second at
// most: a virtual machine may be stopped for a minute, in which nothing happens that the condition waits for.
template <typename F>
bool Eventually(F&& condition, std::chrono::milliseconds timeout = std::chrono::seconds(10));

// Sleeps an eighth of the time waited so far, from 1 to 25 ms, because a poll may be expensive.
void NapBetweenPolls(std::chrono::steady_clock::duration waited);
// Scales a time-out of an ordinary machine by $NDBROKER_TIME_FACTOR, for slow machines such as emulated ones.
// Never returns less than `timeout`.
std::chrono::milliseconds Scaled(std::chrono::milliseconds timeout);
template <typename F>
bool Eventually(F&& condition, std::chrono::milliseconds timeout) {
  using std::chrono::steady_clock;
  steady_clock::duration waited{};
  for (auto last = steady_clock::now();;) {
    if (condition()) return true;
    if (waited >= Scaled(timeout)) return false;
    NapBetweenPolls(waited);
    const auto now = steady_clock::now();
    waited += std::min<steady_clock::duration>(now - last, std::chrono::seconds(1));
    last = now;
  }
}

}  // namespace nd::testing
