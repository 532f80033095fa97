// SPDX-License-Identifier: Apache-2.0
// The kernel waits interruptibly for a lingering socket: a signal to the thread ends the wait and not the
// close.
#include "daemon/service/reaper.h"

#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <utility>

#include "base/os/thread.h"

namespace nd::service {
namespace {

int InterruptSignal() {
  return SIGRTMIN + 1;
}

// Sends the calling thread a signal when it takes too long, and repeats it until the destructor.
class Alarm {
 public:
  Alarm() {
    struct sigaction nothing {};
    nothing.sa_handler = [](int) {
    };  // Without SA_RESTART, and not SIG_IGN, which would not interrupt the wait.
    ::sigaction(InterruptSignal(), &nothing, nullptr);
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, InterruptSignal());
    ::pthread_sigmask(SIG_UNBLOCK, &signals, nullptr);
    sigevent event{};
    event.sigev_notify = SIGEV_THREAD_ID;
    event.sigev_signo = InterruptSignal();
    event._sigev_un._tid = ::gettid();
    good_ = ::timer_create(CLOCK_MONOTONIC, &event, &timer_) == 0;
  }
  ~Alarm() {
    if (good_) ::timer_delete(timer_);
  }
  void Set() { Set(Reaper::kLongestClose); }
  void Clear() { Set(Duration::zero()); }

 private:
  void Set(Duration after) {
    if (!good_) return;
    itimerspec when{};
    when.it_value.tv_nsec = when.it_interval.tv_nsec = after.count();
    ::timer_settime(timer_, 0, &when, nullptr);
  }

  timer_t timer_{};
  bool good_ = false;
};

}  // namespace

void ResetInsteadOfLingering(int fd) {
  linger how{};
  socklen_t length = sizeof how;
  if (::getsockopt(fd, SOL_SOCKET, SO_LINGER, &how, &length) != 0) return;  // Not a socket.
  if (how.l_onoff == 0 || how.l_linger == 0) return;
  const linger reset{1, 0};
  ::setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
}

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
  Alarm alarm;
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
