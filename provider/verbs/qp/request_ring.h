// SPDX-License-Identifier: Apache-2.0
// What was posted to one queue of a queue pair and has not completed, in posting order.
//
// The device says only a number when it finishes; context, type and length wait here. One poster, one
// completer (under the completion queue's lock); neither waits for the other.
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
  // Sequence numbers have 31 bits: bit 31 of the low word of a wr_id says "receive".
  static constexpr std::uint32_t kSequenceMask = 0x7FFFFFFF;

  explicit RequestRing(std::uint32_t depth) : depth_(depth), slots_(std::bit_ceil(depth == 0 ? 1u : depth)) {}

  // Poster. Full: null. The sequence number of the next request is next(); Commit makes it outstanding.
  PostedRequest* Next() {
    const std::uint32_t head = head_.load(std::memory_order_relaxed);
    if (head - tail_.load(std::memory_order_acquire) >= depth_) return nullptr;
    return &slots_[head & (slots_.size() - 1)];
  }
  std::uint32_t next() const { return head_.load(std::memory_order_relaxed) & kSequenceMask; }
  void Commit() { head_.store(head_.load(std::memory_order_relaxed) + 1, std::memory_order_release); }
  void TakeBack() { head_.store(head_.load(std::memory_order_relaxed) - 1, std::memory_order_release); }

  // Completer. The request with this number, when it is outstanding; those before it are finished too.
  PostedRequest* Finish(std::uint32_t sequence) {
    const std::uint32_t tail = tail_.load(std::memory_order_relaxed);
    const std::uint32_t ahead = (sequence - tail) & kSequenceMask;
    if (ahead >= head_.load(std::memory_order_acquire) - tail) return nullptr;
    for (std::uint32_t i = 0; i < ahead; ++i) slots_[(tail + i) & (slots_.size() - 1)].window.reset();
    finished_ = tail + ahead;
    return &slots_[finished_ & (slots_.size() - 1)];
  }
  // After Finish, when its result has been read.
  void Retire() { tail_.store(finished_ + 1, std::memory_order_release); }
  // The oldest outstanding request, as Finish; null: none.
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
