// SPDX-License-Identifier: Apache-2.0
#include "verbs-lib/numbers.h"

#include <unistd.h>

#include <atomic>
#include <mutex>
#include <unordered_map>

#include "verbs-lib/datagram_header.h"

namespace nd::verbs_lib {
namespace {

constexpr std::size_t kSlots = 1u << 16;

// The number that a slot holds now; 0: free.
std::atomic<std::uint32_t> slots[kSlots], datagram_slots[kSlots];

std::atomic<std::uint32_t>& SlotOf(std::uint32_t number) {
  return (number >= kDatagramNumbers ? datagram_slots : slots)[number % kSlots];
}

struct Table {
  std::mutex mutex;
  // Processes begin at different numbers, because peers see them.
  std::uint32_t next = static_cast<std::uint32_t>(getpid()) * 2654435761u >> 9;
  std::unordered_map<std::uint32_t, std::shared_ptr<QueuePair>> queue_pairs;
};

// Never destroyed: destructors of the program may still destroy queue pairs.
Table& table() {
  static auto* instance = new Table;
  return *instance;
}

}  // namespace

std::uint32_t AddNumber(const std::shared_ptr<QueuePair>& queue_pair) {
  std::lock_guard lock(table().mutex);
  for (std::size_t tries = 0; tries < kSlots; ++tries) {
    const std::uint32_t number = table().next++ & 0x7fffff;
    if (number < 2 || slots[number % kSlots].load() != 0) continue;
    table().queue_pairs.emplace(number, queue_pair);
    slots[number % kSlots].store(number, std::memory_order_release);
    return number;
  }
  return 0;
}

bool AddNumber(std::uint32_t number, const std::shared_ptr<QueuePair>& queue_pair) {
  std::lock_guard lock(table().mutex);
  if (!table().queue_pairs.emplace(number, queue_pair).second) return false;
  SlotOf(number).store(number, std::memory_order_release);
  return true;
}

void RemoveNumber(std::uint32_t number) {
  std::shared_ptr<QueuePair> last;  // Destroyed outside the lock.
  std::lock_guard lock(table().mutex);
  const auto it = table().queue_pairs.find(number);
  if (it == table().queue_pairs.end()) return;
  last = std::move(it->second);
  table().queue_pairs.erase(it);
  SlotOf(number).store(0, std::memory_order_release);
}

bool NumberExists(std::uint32_t number) {
  return number != 0 && SlotOf(number).load(std::memory_order_acquire) == number;
}

std::shared_ptr<QueuePair> FindQueuePair(std::uint32_t number) {
  std::lock_guard lock(table().mutex);
  const auto it = table().queue_pairs.find(number);
  return it == table().queue_pairs.end() ? nullptr : it->second;
}

}  // namespace nd::verbs_lib
