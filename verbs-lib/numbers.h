// SPDX-License-Identifier: Apache-2.0
// The queue pairs of this process by number: 2 to 0x7fffff; from kDatagramNumbers on, those of UD queue
// pairs.
//
// A completion carries the number of its queue pair, so that one which is polled after the queue pair was
// destroyed can be recognised and dropped.
#pragma once

#include <cstdint>
#include <memory>

namespace nd::verbs_lib {

struct QueuePair;

// Numbers the queue pair; 0 when every number is taken.
std::uint32_t AddNumber(const std::shared_ptr<QueuePair>& queue_pair);
// Numbers a UD queue pair. False: the number is taken.
bool AddNumber(std::uint32_t number, const std::shared_ptr<QueuePair>& queue_pair);
void RemoveNumber(std::uint32_t number);
// Takes no lock.
bool NumberExists(std::uint32_t number);
// Null when there is none.
std::shared_ptr<QueuePair> FindQueuePair(std::uint32_t number);

}  // namespace nd::verbs_lib
