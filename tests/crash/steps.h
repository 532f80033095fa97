// SPDX-License-Identifier: Apache-2.0
// The named steps in the life of a connection at which somebody is killed. Each is reached exactly: by calls
// that have completed, by processes that stand still, or by a hold point in a system call.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "tests/crash/stage.h"

namespace nd::crash {

// The connection as far as it has come. Operations that have not begun have no value.
struct Scene {
  std::uint16_t active_port = 0, passive_port = 0;
  Listener l;
  Connector a, p;
  Qp aq, pq;
  std::optional<Outcome> get, connect, accept, complete, disconnect_a, disconnect_p, notify_a, notify_p;
  // Requests posted beyond those of messages, which must all complete.
  std::uint32_t posted_a = 0, posted_p = 0;
  bool up = false;
  Memory target;  // Of one-sided operations, P's.
  // A call into a process that may stand still before it answers.
  std::vector<std::thread> background;
  void Join();
  ~Scene() { Join(); }
};

struct Step {
  const char* name;
  // "" or why the step was not reached.
  std::string (*make)(Stage& stage, Scene& scene);
  bool local = true, iwarp = true;
  bool every_mode = false;  // Also played in tcp mode unless everything is.
};
std::span<const Step> Steps();

}  // namespace nd::crash
