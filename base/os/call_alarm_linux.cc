// SPDX-License-Identifier: Apache-2.0
// The kernel waits interruptibly: a signal to the thread ends the wait.
#include "base/os/call_alarm.h"

#include <pthread.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

namespace nd::os {
namespace {

int InterruptSignal() {
  return SIGRTMIN + 1;
}

}  // namespace

// Sends the calling thread a signal when it takes too long, and repeats it until the destructor.
class CallAlarm::Impl {
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
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(after);
    when.it_value.tv_sec = seconds.count();
    when.it_value.tv_nsec = (after - seconds).count();
    when.it_interval = when.it_value;
    ::timer_settime(timer_, 0, &when, nullptr);
  }

 private:
  timer_t timer_{};
  bool good_ = false;
};

CallAlarm::CallAlarm(Duration longest) : longest_(longest), impl_(std::make_unique<Impl>()) {}
CallAlarm::~CallAlarm() = default;

void CallAlarm::Set() {
  impl_->Set(longest_);
}

void CallAlarm::Clear() {
  impl_->Set(Duration::zero());
}

}  // namespace nd::os
