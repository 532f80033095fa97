// SPDX-License-Identifier: Apache-2.0
// The tables of registered memory of the processes on this host that this process is connected with. Each is
// mapped once, however many connections show it, and unmapped with the last of them. The table that was taken
// last stays until another one is taken, for the next connection with the same process; so the memory of one
// process at most is held after its end.
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

class PeerTables {
 public:
  // Null: the descriptor is no table, or there is no memory for it.
  std::shared_ptr<const Mapping> Take(int fd);

 private:
  struct Table {
    os::MemoryNumber number;
    std::weak_ptr<const Mapping> mapping;
  };

  std::mutex mutex_;
  std::deque<Table> tables_;
  std::shared_ptr<const Mapping> last_;
};

}  // namespace nd::provider::soft
