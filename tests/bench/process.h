// SPDX-License-Identifier: Apache-2.0
// A child process that ends with its parent, and the lines that it reports.
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
  // Starts `program` with `arguments`, of which the first is its name. With `report` the child has the
  // writing end of a pipe for WriteReport(kReportFd); otherwise its standard output is dropped. The child and
  // its threads run on `cpu` only. Ends this process when the start fails.
  static Process Start(const std::string& program, const std::vector<std::string>& arguments, bool report,
                       std::optional<int> cpu = std::nullopt);
  static constexpr int kReportFd = 3;
  Process(Process&& other) noexcept;
  Process& operator=(Process&& other) noexcept;
  ~Process();  // Kills it when it still runs.

  // Returns the next line of the report; no value when the child ended or wrote nothing for `patience`.
  std::optional<std::string> ReadLine(std::chrono::milliseconds patience);
  // Waits at most `patience`. Returns the exit code, 128 + signal, or no value while the child runs.
  std::optional<int> Wait(std::chrono::milliseconds patience);
  void Terminate();

 private:
  pid_t pid_ = -1;
  UniqueFd pidfd_, report_;
  std::string pending_;
};

}  // namespace nd::perf
