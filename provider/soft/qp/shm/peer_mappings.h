// SPDX-License-Identifier: Apache-2.0
// Memory of one kind of the processes on this host that this process is connected with: their tables of
// registered memory, or their ready pages. Each is mapped once, however many connections show it, and
// unmapped with the last of them. The one that was taken last stays until another one is taken, for the next
// connection with the same process; so the memory of one process at most is held after its end.
//
// Any thread; Take() may be called under the lock of a queue pair.
#pragma once

#include <cstddef>
#include <deque>
#include <memory>
#include <mutex>

#include "base/memfd.h"
#include "base/os/descriptor.h"

namespace nd::provider::soft {

class PeerMappings {
 public:
  PeerMappings(std::size_t size, bool writable) : size_(size), writable_(writable) {}
  // Null: the descriptor is no such memory, or this process has no room for it.
  std::shared_ptr<const Mapping> Take(int fd);

 private:
  struct Known {
    os::MemoryNumber number;
    std::weak_ptr<const Mapping> mapping;
  };

  const std::size_t size_;
  const bool writable_;
  std::mutex mutex_;
  std::deque<Known> known_;
  std::shared_ptr<const Mapping> last_;
};

}  // namespace nd::provider::soft
