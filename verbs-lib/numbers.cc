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

// Numbers of one port have slots of their own, because a port may outlive its use for numbers.
std::atomic<std::uint32_t>& SlotOf(std::uint32_t number) {
  if (number >= kDatagramNumbers) return datagram_slots[number % kSlots];
  return slots[(number + (number >> 16) * 509) % kSlots];
}

constexpr std::uint32_t kGenerations = 127;

struct NumberTable {
  std::mutex mutex;
  // Processes begin at different numbers, because peers see them.
  std::uint32_t next = static_cast<std::uint32_t>(getpid()) * 2654435761u >> 9;
  std::uint32_t portless = 0;
  std::unordered_map<std::uint32_t, std::shared_ptr<QueuePair>> queue_pairs;
};

// Never destroyed: destructors of the program may still destroy queue pairs.
NumberTable& number_table() {
  static auto* instance = new NumberTable;
  return *instance;
}

}  // namespace

std::uint32_t AddNumber(const std::shared_ptr<QueuePair>& queue_pair, std::uint16_t port) {
  std::lock_guard lock(number_table().mutex);
  const std::uint32_t tries = port != 0 ? kGenerations : kSlots;
  for (std::uint32_t i = 0; i < tries; ++i) {
    const std::uint32_t low = port != 0 ? port : 1 + number_table().portless++ % (kFirstPortOfNumbers - 1);
    const std::uint32_t number = (1 + number_table().next++ % kGenerations) << 16 | low;
    if (SlotOf(number).load() != 0) continue;
    number_table().queue_pairs.emplace(number, queue_pair);
    SlotOf(number).store(number, std::memory_order_release);
    return number;
  }
  return 0;
}

bool AddNumber(std::uint32_t number, const std::shared_ptr<QueuePair>& queue_pair) {
  std::lock_guard lock(number_table().mutex);
  if (!number_table().queue_pairs.emplace(number, queue_pair).second) return false;
  SlotOf(number).store(number, std::memory_order_release);
  return true;
}

void RemoveNumber(std::uint32_t number) {
  std::shared_ptr<QueuePair> last;  // Destroyed outside the lock.
  std::lock_guard lock(number_table().mutex);
  const auto it = number_table().queue_pairs.find(number);
  if (it == number_table().queue_pairs.end()) return;
  last = std::move(it->second);
  number_table().queue_pairs.erase(it);
  SlotOf(number).store(0, std::memory_order_release);
}

bool NumberExists(std::uint32_t number) {
  return number != 0 && SlotOf(number).load(std::memory_order_acquire) == number;
}

std::shared_ptr<QueuePair> FindQueuePair(std::uint32_t number) {
  std::lock_guard lock(number_table().mutex);
  const auto it = number_table().queue_pairs.find(number);
  return it == number_table().queue_pairs.end() ? nullptr : it->second;
}

}  // namespace nd::verbs_lib
