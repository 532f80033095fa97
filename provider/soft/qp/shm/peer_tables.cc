// SPDX-License-Identifier: Apache-2.0
#include "provider/soft/qp/shm/peer_tables.h"

#include <algorithm>
#include <utility>

#include "provider/soft/qp/token_table.h"

namespace nd::provider::soft {

// A mapped object keeps its number, so that the number of a table in the list is that of no other memory.
std::shared_ptr<const Mapping> PeerTables::Take(int fd) {
  const std::optional<os::MemoryNumber> number = os::NumberOf(fd);
  std::lock_guard lock(mutex_);
  std::erase_if(tables_, [](const Table& table) { return table.mapping.expired(); });
  const auto known = std::find_if(tables_.begin(), tables_.end(),
                                  [&](const Table& table) { return number && table.number == *number; });
  std::shared_ptr<const Mapping> mapping;
  if (known != tables_.end()) {
    mapping = known->mapping.lock();
  } else {
    if (!CheckSealedMemfd(fd, kRegionTableSize).ok()) return nullptr;
    auto made = Mapping::Map(fd, kRegionTableSize, /*writable=*/false);
    if (!made.ok()) return nullptr;
    made->KeepFromChildren();
    mapping = std::make_shared<const Mapping>(std::move(made).value());
    if (number) tables_.push_back({*number, mapping});
  }
  last_ = mapping;
  return mapping;
}

}  // namespace nd::provider::soft
