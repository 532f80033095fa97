// SPDX-License-Identifier: Apache-2.0
// The outstanding requests of one queue of a queue pair, in posting order.
//
// A completion of the device carries only a number; the ring holds context, type and length. One thread posts
// and one thread completes (under the lock of the completion queue). Neither waits for the other.
#pragma once

#include <atomic>
#include <bit>
#include <cstdint>
#include <memory>
#include <vector>

#include "nd/types.h"

namespace nd::provider::verbs {

class VerbsWindow;

struct PostedRequest {
  void* context = nullptr;
  std::uint32_t length = 0;
  RequestType type = RequestType::kReceive;
  bool silent = false;
  std::shared_ptr<VerbsWindow> window;  // Bind and Invalidate.
};

class RequestRing {
 public:
  // Sequence numbers have 31 bits: bit 31 of the low word of a wr_id marks a receive.
  static constexpr std::uint32_t kSequenceMask = 0x7FFFFFFF;

  explicit RequestRing(std::uint32_t depth) : depth_(depth), slots_(std::bit_ceil(depth == 0 ? 1u : depth)) {}

  // For the poster. Returns the entry of the next request, whose sequence number is next(), or null when the
  // ring is full. Commit() makes the request outstanding.
  PostedRequest* Next() {
    const std::uint32_t head = head_.load(std::memory_order_relaxed);
    if (head - tail_.load(std::memory_order_acquire) >= depth_) return nullptr;
    return &slots_[head & (slots_.size() - 1)];
  }
  std::uint32_t next() const { return head_.load(std::memory_order_relaxed) & kSequenceMask; }
  void Commit() { head_.store(head_.load(std::memory_order_relaxed) + 1, std::memory_order_release); }
  void TakeBack() { head_.store(head_.load(std::memory_order_relaxed) - 1, std::memory_order_release); }

  // For the completer. Returns the request with this number if it is outstanding. Requests before it are
  // finished too.
  PostedRequest* Finish(std::uint32_t sequence) {
    const std::uint32_t tail = tail_.load(std::memory_order_relaxed);
    const std::uint32_t ahead = (sequence - tail) & kSequenceMask;
    if (ahead >= head_.load(std::memory_order_acquire) - tail) return nullptr;
    for (std::uint32_t i = 0; i < ahead; ++i) slots_[(tail + i) & (slots_.size() - 1)].window.reset();
    finished_ = tail + ahead;
    return &slots_[finished_ & (slots_.size() - 1)];
  }
  // After Finish(), once the result has been read.
  void Retire() { tail_.store(finished_ + 1, std::memory_order_release); }
  // As Finish() for the oldest outstanding request; null when there is none.
  PostedRequest* FinishOldest() { return Finish(tail_.load(std::memory_order_relaxed) & kSequenceMask); }

  std::uint32_t outstanding() const {
    return head_.load(std::memory_order_acquire) - tail_.load(std::memory_order_acquire);
  }
  std::uint32_t depth() const { return depth_; }

 private:
  const std::uint32_t depth_;
  std::vector<PostedRequest> slots_;
  std::atomic<std::uint32_t> head_{0}, tail_{0};
  std::uint32_t finished_ = 0;
};

}  // namespace nd::provider::verbs
