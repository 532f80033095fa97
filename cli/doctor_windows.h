// SPDX-License-Identifier: Apache-2.0
// The checks of `ndctl doctor` on Windows. The judgement is pure, and is tested on every system.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cli/doctor.h"

namespace nd::cli {

// As the service control manager has it. kUnknown: it does not tell this user.
enum class ServiceState { kUnknown, kAbsent, kStopped, kRunning };

struct WindowsFacts {
  std::string directory;
  bool directory_exists = false;
  bool access_known = false;  // The next three are known.
  bool ours = false;          // The directory belongs to this user, administrators or the system.
  bool others_read = false, others_write = false;  // Beyond them.
  SocketFact lane;                                 // The pipe for applications.
  ServiceState service = ServiceState::kUnknown;
  bool service_automatic = false;  // It starts with the system.
  std::uint32_t service_pid = 0;
  bool event_source = false;  // The event log knows the texts of the broker.
};

std::vector<Verdict> JudgeWindows(const WindowsFacts& facts, const BrokerFacts& broker);

}  // namespace nd::cli
