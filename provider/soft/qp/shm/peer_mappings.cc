// SPDX-License-Identifier: Apache-2.0
#include "provider/soft/qp/shm/peer_mappings.h"

#include <algorithm>
#include <utility>

namespace nd::provider::soft {

// A mapped object keeps its number, so that a number in the list is that of no other memory.
std::shared_ptr<const Mapping> PeerMappings::Take(int fd) {
  const std::optional<os::MemoryNumber> number = os::NumberOf(fd);
  std::lock_guard lock(mutex_);
  std::erase_if(known_, [](const Known& known) { return known.mapping.expired(); });
  const auto known = std::find_if(known_.begin(), known_.end(),
                                  [&](const Known& one) { return number && one.number == *number; });
  std::shared_ptr<const Mapping> mapping;
  if (known != known_.end()) {
    mapping = known->mapping.lock();
  } else {
    if (!CheckSealedMemfd(fd, size_).ok()) return nullptr;
    auto made = Mapping::Map(fd, size_, writable_);
    if (!made.ok()) return nullptr;
    made->KeepFromChildren();
    mapping = std::make_shared<const Mapping>(std::move(made).value());
    if (number) known_.push_back({*number, mapping});
  }
  last_ = mapping;
  return mapping;
}

}  // namespace nd::provider::soft
