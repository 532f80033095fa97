// SPDX-License-Identifier: Apache-2.0
// The capacity is exact (16384 binds succeed, the next fails), so the pool holds precisely the free ports.
#include "daemon/core/ephemeral_pool.h"

#include "daemon/core/check.h"

namespace nd::core {

EphemeralPool::EphemeralPool(std::uint16_t first, std::uint16_t last, std::uint64_t start)
    : first_(first), last_(last) {
  ND_CORE_CHECK(first <= last);
  const std::uint32_t count = static_cast<std::uint32_t>(last) - first + 1;
  next_.assign(count + 1, kOut);
  previous_.assign(count + 1, kOut);
  next_[count] = previous_[count] = count;
  const auto offset = static_cast<std::uint32_t>(start % count);
  for (std::uint32_t i = 0; i < count; ++i) Append((offset + i) % count);
}

void EphemeralPool::Append(std::uint32_t node) {
  const auto head = static_cast<std::uint32_t>(next_.size() - 1);
  const std::uint32_t last = previous_[head];
  next_[last] = node;
  previous_[node] = last;
  next_[node] = head;
  previous_[head] = node;
  ++size_;
}

std::optional<std::uint16_t> EphemeralPool::Oldest() const {
  if (size_ == 0) return std::nullopt;
  return static_cast<std::uint16_t>(first_ + next_.back());
}

bool EphemeralPool::Contains(std::uint16_t port) const {
  return InRange(port) && next_[static_cast<std::uint32_t>(port) - first_] != kOut;
}

void EphemeralPool::Remove(std::uint16_t port) {
  if (!Contains(port)) return;
  const std::uint32_t node = static_cast<std::uint32_t>(port) - first_;
  next_[previous_[node]] = next_[node];
  previous_[next_[node]] = previous_[node];
  next_[node] = previous_[node] = kOut;
  --size_;
}

void EphemeralPool::PutBack(std::uint16_t port) {
  if (!InRange(port) || Contains(port)) return;
  Append(static_cast<std::uint32_t>(port) - first_);
}

}  // namespace nd::core
