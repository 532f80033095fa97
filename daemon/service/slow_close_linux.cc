// SPDX-License-Identifier: Apache-2.0
// The kernel waits interruptibly for a lingering socket: a signal to the thread ends the wait and not the
// close.
#include "daemon/service/slow_close.h"

#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

namespace nd::service {
namespace {

int InterruptSignal() {
  return SIGRTMIN + 1;
}

}  // namespace

// Sends the calling thread a signal when it takes too long, and repeats it until the destructor.
class CloseAlarm::Impl {
 public:
  Impl() {
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
  ~Impl() {
    if (good_) ::timer_delete(timer_);
  }
  void Set(Duration after) {
    if (!good_) return;
    itimerspec when{};
    when.it_value.tv_nsec = when.it_interval.tv_nsec = after.count();
    ::timer_settime(timer_, 0, &when, nullptr);
  }

 private:
  timer_t timer_{};
  bool good_ = false;
};

void ResetInsteadOfLingering(int fd) {
  linger how{};
  socklen_t length = sizeof how;
  if (::getsockopt(fd, SOL_SOCKET, SO_LINGER, &how, &length) != 0) return;  // Not a socket.
  if (how.l_onoff == 0 || how.l_linger == 0) return;
  const linger reset{1, 0};
  ::setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
}

CloseAlarm::CloseAlarm(Duration longest) : longest_(longest), impl_(std::make_unique<Impl>()) {}
CloseAlarm::~CloseAlarm() = default;

void CloseAlarm::Set() {
  impl_->Set(longest_);
}

void CloseAlarm::Clear() {
  impl_->Set(Duration::zero());
}

}  // namespace nd::service
