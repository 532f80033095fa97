// SPDX-License-Identifier: Apache-2.0
// POSIX semaphores. std::counting_semaphore yields the processor some times before it sleeps.
#include <semaphore.h>

#include <cerrno>
#include <ctime>
#include <new>

#include "base/os/semaphore.h"

namespace nd::os {
namespace {

sem_t* SystemSemaphore(std::byte* memory) {
  return std::launder(reinterpret_cast<sem_t*>(memory));
}

}  // namespace

Semaphore::Semaphore() {
  static_assert(sizeof(sem_t) <= sizeof(memory_));
  sem_init(new (memory_) sem_t, 0, 0);
}

Semaphore::~Semaphore() {
  sem_destroy(SystemSemaphore(memory_));
}

void Semaphore::Post() {
  sem_post(SystemSemaphore(memory_));
}

void Semaphore::Wait() {
  while (sem_wait(SystemSemaphore(memory_)) != 0 && errno == EINTR) {
  }
}

bool Semaphore::WaitUntil(Time deadline) {
  const auto since = deadline.time_since_epoch();
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(since);
  timespec when{};
  when.tv_sec = static_cast<time_t>(seconds.count());
  when.tv_nsec = static_cast<long>((since - seconds).count());
  int result;
  do {
    result = sem_clockwait(SystemSemaphore(memory_), CLOCK_MONOTONIC, &when);
  } while (result != 0 && errno == EINTR);
  return result == 0;
}

}  // namespace nd::os
