// SPDX-License-Identifier: Apache-2.0
// Checks which threads still answer. A thread on which others depend joins with its name and a function that
// posts to it. In each round every member is asked to run a function, and a member that has not run it for
// too many rounds is stale.
//
// Rounds are counted, not seconds: after a pause of the whole process (SIGSTOP, a suspended machine) no
// member is stale. A thread of its own asks. Any thread.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"

namespace nd::ops {

class Pulse {
 public:
  // The names of the stale members, in order of joining; empty when every member answers.
  using Names = std::vector<std::string>;
  struct Options {
    Duration round = std::chrono::seconds(1);
    // Called at the end of each round, on the thread of the pulse; must not block. A watchdog is fed here
    // while `stale` is empty. May be null.
    std::function<void(const Names& stale)> on_round;
  };
  // Runs a function on the thread of the member, after work that is queued there; never blocks.
  using Post = std::function<void(std::function<void()>)>;

  // The number of rounds that a member may leave unanswered.
  static constexpr std::uint32_t kPatience = 3;

  explicit Pulse(Options options);
  ~Pulse() { Stop(); }
  Pulse(const Pulse&) = delete;
  Pulse& operator=(const Pulse&) = delete;

  // `post` must stay callable until Stop().
  void Join(std::string name, Post post, std::uint32_t patience = kPatience);
  struct Member {
    std::string name;
    bool stale = false;
  };
  // Stops asking; answers may still come. Not from two threads at once.
  void Stop();
  std::vector<Member> Members() const;
  Names Stale() const;

 private:
  // Shared with the question, which may be answered after the end of the pulse.
  struct Slot;
  void Run();
  void AskEverybody();

  const Options options_;
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  std::vector<std::shared_ptr<Slot>> slots_;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace nd::ops
