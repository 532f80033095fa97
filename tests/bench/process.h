// SPDX-License-Identifier: Apache-2.0
// A child process that dies with us, and one line that it may report.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "base/unique_fd.h"

namespace nd::perf {

class Process {
 public:
  Process() = default;
  // Starts `program` with `arguments` (the first is its name). With `report` the child finds the writing end
  // of a pipe as descriptor kReportFd; without, its standard output is dropped. Ends this process when the
  // system refuses.
  static Process Start(const std::string& program, const std::vector<std::string>& arguments, bool report);
  static constexpr int kReportFd = 3;
  Process(Process&& other) noexcept;
  Process& operator=(Process&& other) noexcept;
  ~Process();  // Kills it when it still runs.

  // The next line of the report; nothing when the child ended or was silent for `patience`.
  std::optional<std::string> ReadLine(std::chrono::milliseconds patience);
  // Waits at most `patience`; the exit code, 128 + signal, or nothing while it runs.
  std::optional<int> Wait(std::chrono::milliseconds patience);
  void Terminate();

 private:
  pid_t pid_ = -1;
  UniqueFd pidfd_, report_;
  std::string pending_;
};

}  // namespace nd::perf
