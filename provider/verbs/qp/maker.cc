// SPDX-License-Identifier: Apache-2.0
// The thread that creates a queue pair must outlive it (context.h).
#include "provider/verbs/qp/maker.h"

#include <pthread.h>
#include <signal.h>

namespace nd::provider::verbs {

Maker::Maker() {
  // Signals are left to the threads of the application.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  thread_ = std::thread([this] { Loop(); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

Maker::~Maker() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void Maker::Run(const std::function<void()>& make) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return next_ == nullptr; });
  next_ = &make;
  changed_.notify_all();
  changed_.wait(lock, [&] { return next_ != &make; });
}

void Maker::Loop() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return stop_ || next_ != nullptr; });
    if (stop_) return;
    const std::function<void()>* const make = next_;
    lock.unlock();
    (*make)();
    lock.lock();
    next_ = nullptr;
    changed_.notify_all();
  }
}

}  // namespace nd::provider::verbs
