// SPDX-License-Identifier: Apache-2.0
// Pending closes of objects that the broker does not know.
#include "client-lib/core/lifetime.h"

#include <utility>

namespace nd::client {

bool Lifetime::AddSuccessor() {
  std::lock_guard lock(mutex_);
  if (closed_) return false;
  ++successors_;
  return true;
}

void Lifetime::RemoveSuccessor() {
  std::function<void()> finish;
  {
    std::lock_guard lock(mutex_);
    if (--successors_ == 0) finish = std::exchange(finish_, nullptr);
  }
  if (finish) finish();
}

bool Lifetime::Close(std::function<void()> finish) {
  {
    std::lock_guard lock(mutex_);
    if (closed_) return false;
    closed_ = true;
    if (successors_ != 0) {
      finish_ = std::move(finish);
      return true;
    }
  }
  finish();
  return true;
}

bool Lifetime::closed() const {
  std::lock_guard lock(mutex_);
  return closed_;
}

}  // namespace nd::client
