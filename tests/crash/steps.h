// SPDX-License-Identifier: Apache-2.0
// The named steps in the life of a connection at which processes are killed. Each step is reached exactly: by
// completed calls, by stopped processes, or by a hold point in a system call.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "tests/crash/stage.h"

namespace nd::crash {

// The connection at this step. Operations that have not started have no value.
struct Scene {
  std::uint16_t active_port = 0, passive_port = 0;
  Listener l;
  Connector a, p;
  Qp aq, pq;
  std::optional<Outcome> get, connect, accept, complete, disconnect_a, disconnect_p, notify_a, notify_p;
  // The number of posted requests besides messages; all must complete.
  std::uint32_t posted_a = 0, posted_p = 0;
  bool up = false;
  Memory target;  // The memory of P for one-sided operations.
  // Calls into a process that may be stopped before it answers.
  std::vector<std::thread> background;
  void Join();
  ~Scene() { Join(); }
};

struct Step {
  const char* name;
  // Returns "" or the reason why the step was not reached.
  std::string (*make)(Stage& stage, Scene& scene);
  bool local = true, iwarp = true;
  bool every_mode = false;  // Also run in tcp mode, even when not all steps are.
};
std::span<const Step> Steps();

}  // namespace nd::crash
