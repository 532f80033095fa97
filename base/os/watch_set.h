// SPDX-License-Identifier: Apache-2.0
// Any number of descriptors, watched at the cost of those that are ready. Any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/clock.h"
#include "base/os/readiness.h"
#include "base/unique_fd.h"

namespace nd::os {

class WatchSet {
 public:
  // False when the process has no descriptor left; errno has the reason.
  WatchSet();
  explicit operator bool() const { return static_cast<bool>(fd_); }

  // Readable while a watched descriptor is ready.
  int handle() const { return fd_.get(); }

  // kReported: the descriptor is not watched from its report until the next Change().
  enum class Until { kRemoved, kReported };
  // Watches `fd` for `wanted` (bits of readiness.h); Take() reports `tag`. False: errno says why. A closed
  // descriptor is not watched any more, unless another process has a copy.
  bool Add(int fd, std::uint32_t wanted, std::uint64_t tag, Until until);
  bool Change(int fd, std::uint32_t wanted, std::uint64_t tag, Until until);
  void Remove(int fd);

  struct Ready {
    std::uint64_t tag;
    std::uint32_t ready;
  };
  static constexpr std::size_t kMostReady = 128;
  // Waits until a descriptor is ready or `timeout` has passed (negative: never), and reports at most
  // kMostReady. Returns their number; 0 also when a signal arrived. Waits are in whole milliseconds, rounded
  // up, so that a caller does not spin through the last millisecond before a timer.
  std::size_t Take(std::span<Ready> out, Duration timeout) const;

 private:
  UniqueFd fd_;
};

}  // namespace nd::os
