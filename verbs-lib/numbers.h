// SPDX-License-Identifier: Apache-2.0
// The queue pairs of this process by number; from kDatagramNumbers on, those of UD queue pairs. The low 16
// bits of others are the port of the queue pair, or count those without one; the 7 bits above change each
// time, so that a number is not soon used again.
//
// A completion carries the number of its queue pair, so that one which is polled after the queue pair was
// destroyed can be recognised and dropped.
#pragma once

#include <cstdint>
#include <memory>

namespace nd::verbs_lib {

struct QueuePair;

// Smaller low bits count the queue pairs without a port.
inline constexpr std::uint32_t kFirstPortOfNumbers = 1024;

// Returns the port of a number; 0 when the number has none and cannot be reached.
constexpr std::uint16_t PortOfNumber(std::uint32_t number) {
  const std::uint32_t port = number & 0xffff;
  return port < kFirstPortOfNumbers ? std::uint16_t{0} : static_cast<std::uint16_t>(port);
}

// Numbers the queue pair; 0 when every number is taken. `port`: see by_number.h; 0: it has none.
std::uint32_t AddNumber(const std::shared_ptr<QueuePair>& queue_pair, std::uint16_t port = 0);
// Numbers a UD queue pair. False: the number is taken.
bool AddNumber(std::uint32_t number, const std::shared_ptr<QueuePair>& queue_pair);
void RemoveNumber(std::uint32_t number);
// Takes no lock.
bool NumberExists(std::uint32_t number);
// Null when there is none.
std::shared_ptr<QueuePair> FindQueuePair(std::uint32_t number);

}  // namespace nd::verbs_lib
