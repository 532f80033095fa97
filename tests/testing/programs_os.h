// SPDX-License-Identifier: Apache-2.0
// The parts of the programs that differ by system.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>

namespace nd::testing {

pid_t OwnProcess();
// The memory of this process that is in use.
std::size_t ResidentKilobytes();

// A barrier for two processes, in a file that both map. One thread of each.
class Meeting {
 public:
  explicit Meeting(const std::string& path);
  ~Meeting();
  Meeting(const Meeting&) = delete;
  Meeting& operator=(const Meeting&) = delete;
  void Wait();

 private:
  std::atomic<std::uint32_t>* arrived_;
};

}  // namespace nd::testing
