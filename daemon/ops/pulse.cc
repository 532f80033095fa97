// SPDX-License-Identifier: Apache-2.0
// A member has at most one pending question, so that a stuck thread does not accumulate them.
#include "daemon/ops/pulse.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "base/os/thread.h"
#include "daemon/ops/logging.h"

namespace nd::ops {

struct Pulse::Slot {
  std::string name;
  Post post;
  std::uint32_t patience = 0;
  std::atomic<bool> answered{true};
  std::uint32_t silent = 0;  // Rounds since the question. Under mutex_.
  bool stale() const { return silent > patience; }
};

Pulse::Pulse(Options options) : options_(std::move(options)), thread_([this] { Run(); }) {
  os::NameThread(thread_, "nd-pulse");
}

void Pulse::Stop() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_one();
  if (thread_.joinable()) thread_.join();
}

void Pulse::Join(std::string name, Post post, std::uint32_t patience) {
  auto slot = std::make_shared<Slot>();
  slot->name = std::move(name);
  slot->post = std::move(post);
  slot->patience = patience;
  const std::lock_guard lock(mutex_);
  slots_.push_back(std::move(slot));
}

std::vector<Pulse::Member> Pulse::Members() const {
  const std::lock_guard lock(mutex_);
  std::vector<Member> members;
  for (const auto& slot : slots_) members.push_back({slot->name, slot->stale()});
  return members;
}

Pulse::Names Pulse::Stale() const {
  Names names;
  for (Member& member : Members()) {
    if (member.stale) names.push_back(std::move(member.name));
  }
  return names;
}

void Pulse::AskEverybody() {
  std::vector<std::shared_ptr<Slot>> to_ask;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& slot : slots_) {
      const bool was_stale = slot->stale();
      if (slot->answered.exchange(false)) {
        slot->silent = 0;
        to_ask.push_back(slot);
        if (was_stale) LogInfo("the thread \"" + slot->name + "\" answers again");
      } else if (++slot->silent == slot->patience + 1) {
        LogWarning("thread stuck", "the thread \"" + slot->name + "\" has not answered for " +
                                       std::to_string(slot->silent) + " rounds");
      }
    }
  }
  for (const auto& slot : to_ask) {
    slot->post([slot] { slot->answered = true; });
  }
}

void Pulse::Run() {
  for (;;) {
    {
      std::unique_lock lock(mutex_);
      wake_.wait_for(lock, options_.round, [this] { return stop_; });
      if (stop_) return;
    }
    AskEverybody();
    if (options_.on_round) options_.on_round(Stale());
  }
}

}  // namespace nd::ops
