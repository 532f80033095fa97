// SPDX-License-Identifier: Apache-2.0
#include <pthread.h>
#include <signal.h>

#include <memory>

#include "base/os/library_thread.h"
#include "base/os/thread.h"

namespace nd::os {

void NameThread(std::thread& thread, const char* name) {
  ::pthread_setname_np(thread.native_handle(), name);
}

void NameThisThread(const char* name) {
  ::pthread_setname_np(::pthread_self(), name);
}

bool StartLastingThread(const char* name, void (*run)(void* argument), void* argument) {
  struct Start {
    void (*run)(void*);
    void* argument;
  };
  auto start = std::make_unique<Start>(Start{run, argument});
  sigset_t all, old;
  ::sigfillset(&all);
  // The kernel ends a process at once that blocks the signal of its own fault.
  for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL}) ::sigdelset(&all, fault);
  ::pthread_sigmask(SIG_SETMASK, &all, &old);
  pthread_t thread;
  const int error = ::pthread_create(
      &thread, nullptr,
      [](void* given) -> void* {
        const std::unique_ptr<Start> started(static_cast<Start*>(given));
        MarkLibraryThread();
        started->run(started->argument);
        return nullptr;
      },
      start.get());
  ::pthread_sigmask(SIG_SETMASK, &old, nullptr);
  if (error != 0) return false;
  static_cast<void>(start.release());
  ::pthread_setname_np(thread, name);
  ::pthread_detach(thread);
  return true;
}

}  // namespace nd::os
