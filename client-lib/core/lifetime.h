// SPDX-License-Identifier: Apache-2.0
// Antecedents and successors of Network Direct: closing an object that others use waits for them.
#pragma once

#include <cstdint>
#include <functional>
#include <mutex>

namespace nd::client {

// The count of one antecedent (a completion queue, a shared receive queue). Any thread.
class Lifetime {
 public:
  // False once closing: the caller answers INVALID_HANDLE.
  bool AddSuccessor();
  // The successor's close completed and its callback has returned. May run the pending finish.
  void RemoveSuccessor();
  // The first call only (false afterwards): `finish` runs now when there is no successor, otherwise from the
  // RemoveSuccessor() of the last one.
  bool Close(std::function<void()> finish);
  bool closed() const;

 private:
  mutable std::mutex mutex_;
  std::uint32_t successors_ = 0;
  bool closed_ = false;
  std::function<void()> finish_;
};

}  // namespace nd::client
