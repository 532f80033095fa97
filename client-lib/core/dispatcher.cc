// SPDX-License-Identifier: Apache-2.0
// Callbacks have a thread of their own, so that a blocking callback delays no completion.
#include "client-lib/core/dispatcher.h"

#include <utility>

#include "base/os/library_thread.h"

namespace nd::client {
namespace {

thread_local const Dispatcher* current = nullptr;

}  // namespace

Dispatcher::~Dispatcher() {
  Stop();
  // Destroyed by its own last task: the thread cannot join itself, and Run() accesses no member any more.
  if (thread_.joinable()) thread_.detach();
}

void Dispatcher::Post(std::function<void()> task) {
  if (!TryPost(task)) task();
}

bool Dispatcher::TryPost(std::function<void()>& task) {
  std::lock_guard lock(mutex_);
  if (stopped_) return false;
  tasks_.push_back(std::move(task));
  if (!thread_.joinable()) thread_ = std::thread([this] { Run(); });
  wake_.notify_one();
  return true;
}

bool Dispatcher::used() const {
  std::lock_guard lock(mutex_);
  return thread_.joinable();
}

void Dispatcher::PostUnlessUnused(std::function<void()> task) {
  used() ? Post(std::move(task)) : task();
}

bool Dispatcher::OnThread() const {
  return current == this;
}

void Dispatcher::Stop() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
    if (!thread_.joinable()) stopped_ = true;
    wake_.notify_one();
  }
  if (!OnThread() && thread_.joinable()) thread_.join();
}

void Dispatcher::Run() {
  os::MarkLibraryThread();
  current = this;
  std::unique_lock lock(mutex_);
  for (;;) {
    wake_.wait(lock, [this] { return stopping_ || !tasks_.empty(); });
    if (tasks_.empty()) break;
    std::function<void()> task = std::move(tasks_.front());
    tasks_.pop_front();
    lock.unlock();
    task();
    task = nullptr;  // Its captures may destroy objects, but not the dispatcher, which the session holds.
    lock.lock();
  }
  stopped_ = true;
}

}  // namespace nd::client
