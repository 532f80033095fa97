// SPDX-License-Identifier: Apache-2.0
#include <new>
#include <semaphore>

#include "base/os/semaphore.h"

namespace nd::os {
namespace {

using SystemSemaphore = std::counting_semaphore<>;

SystemSemaphore& In(std::byte* memory) {
  return *std::launder(reinterpret_cast<SystemSemaphore*>(memory));
}

}  // namespace

Semaphore::Semaphore() {
  static_assert(sizeof(SystemSemaphore) <= sizeof(memory_));
  new (memory_) SystemSemaphore(0);
}

Semaphore::~Semaphore() {
  In(memory_).~SystemSemaphore();
}

void Semaphore::Post() {
  In(memory_).release();
}

void Semaphore::Wait() {
  In(memory_).acquire();
}

bool Semaphore::WaitUntil(Time deadline) {
  return In(memory_).try_acquire_until(deadline);
}

}  // namespace nd::os
