// SPDX-License-Identifier: Apache-2.0
#include "daemon/service/reaper.h"

#include <utility>

#include "base/os/call_alarm.h"
#include "base/os/thread.h"
#include "daemon/service/slow_close.h"

namespace nd::service {

Reaper::Reaper(std::function<void(int fd)> prepare)
    : prepare_(std::move(prepare)), thread_([this] { Run(); }) {
  os::NameThread(thread_, "nd-reaper");
}

Reaper::~Reaper() {
  {
    std::unique_lock lock(mutex_);
    stop_ = true;
    wake_.notify_one();
    if (!ended_.wait_for(lock, kPatience, [this] { return over_; })) {
      for (auto& [uid, fds] : waiting_) {
        for (UniqueFd& fd : fds) static_cast<void>(fd.release());
      }
      waiting_.clear();
    }
  }
  thread_.join();
}

bool Reaper::HasRoom(std::uint32_t uid) const {
  const std::lock_guard lock(mutex_);
  const auto of_user = waiting_.find(uid);
  return state_.waiting < kMost && (of_user == waiting_.end() || of_user->second.size() < kMostOfUser);
}

void Reaper::Close(std::uint32_t uid, std::vector<UniqueFd> fds) {
  if (fds.empty()) return;
  {
    const std::lock_guard lock(mutex_);
    state_.waiting += fds.size();
    std::deque<UniqueFd>& of_user = waiting_[uid];
    for (UniqueFd& fd : fds) of_user.push_back(std::move(fd));
  }
  wake_.notify_one();
}

Reaper::State Reaper::state() const {
  const std::lock_guard lock(mutex_);
  return state_;
}

UniqueFd Reaper::TakeNext() {
  auto next = waiting_.upper_bound(last_user_);
  if (next == waiting_.end()) next = waiting_.begin();
  last_user_ = next->first;
  UniqueFd fd = std::move(next->second.front());
  next->second.pop_front();
  if (next->second.empty()) waiting_.erase(next);
  return fd;
}

void Reaper::Run() {
  os::CallAlarm alarm(kLongestClose);
  std::unique_lock lock(mutex_);
  for (;;) {
    wake_.wait(lock, [this] { return stop_ || !waiting_.empty(); });
    if (waiting_.empty()) break;
    UniqueFd fd = TakeNext();
    lock.unlock();
    if (prepare_) prepare_(fd.get());
    const auto started = std::chrono::steady_clock::now();
    alarm.Set();
    fd.reset();
    alarm.Clear();
    const bool interrupted = std::chrono::steady_clock::now() - started >= kLongestClose;
    lock.lock();
    --state_.waiting;
    ++state_.closed;
    state_.interrupted += interrupted;
  }
  over_ = true;
  ended_.notify_one();
}

}  // namespace nd::service
