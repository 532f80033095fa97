// SPDX-License-Identifier: Apache-2.0
// Queues: where work is posted and where its completions appear. All of it lives in this process; no call
// here talks to the broker.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <span>

#include "nd/memory.h"
#include "nd/request.h"
#include "nd/status.h"
#include "nd/types.h"

namespace nd {

class Adapter;
namespace provider {
class CompletionQueue;
class SharedReceiveQueue;
class QueuePair;
}  // namespace provider

// Finished work of any number of queue pairs, in order per queue. Any thread.
class CompletionQueue {
 public:
  CompletionQueue() = default;

  // Fills the front of `out` and returns how many; never blocks. Polling makes progress by itself.
  std::size_t Poll(std::span<Completion> out);
  // Sleeps until Poll() has something. IO_TIMEOUT after `timeout`.
  Status Wait(std::chrono::nanoseconds timeout);
  // Wait and Poll for one completion.
  Result<Completion> Next(std::chrono::nanoseconds timeout = std::chrono::hours(1));

  // For event loops: Notify() arms, handle() becomes readable, ConsumeNotification() resets it; then Poll
  // until empty before arming again. All armed kinds fire together: ANY absorbs all, SOLICITED absorbs ERRORS.
  Status Notify(NotifyType type);
  int handle() const;
  void ConsumeNotification();

  Status Resize(std::uint32_t depth);
  // BUFFER_OVERFLOW once more completions arrived than fit; the queue is lost then.
  Status state() const;
  // Waits, as PENDING, for the queue pairs that use it.
  Status Close(Request* request = nullptr);

  struct Impl;
  explicit CompletionQueue(std::shared_ptr<Impl> impl);
  const std::shared_ptr<Impl>& impl() const { return impl_; }

 private:
  std::shared_ptr<Impl> impl_;
};

// Receives that several queue pairs take from.
class SharedReceiveQueue {
 public:
  SharedReceiveQueue() = default;
  Status Receive(void* request_context, std::span<const Sge> sges);
  Status Close(Request* request = nullptr);

  struct Impl;
  explicit SharedReceiveQueue(std::shared_ptr<Impl> impl);
  const std::shared_ptr<Impl>& impl() const { return impl_; }

 private:
  std::shared_ptr<Impl> impl_;
};

struct QueuePairOptions {
  CompletionQueue* receive_cq = nullptr;
  CompletionQueue* initiator_cq = nullptr;
  SharedReceiveQueue* shared_receive_queue = nullptr;
  void* context = nullptr;  // Completion::queue_pair_context
  std::uint32_t receive_depth = 64;
  std::uint32_t initiator_depth = 64;
  std::uint32_t max_receive_sge = 4;
  std::uint32_t max_initiator_sge = 4;
  std::uint32_t inline_data_size = 64;
};

// A queue pair. Receive may be posted at any time, even before it is connected; everything else answers
// CONNECTION_INVALID until then. Queue full: NO_MORE_ENTRIES. Too many elements: DATA_OVERRUN. More bytes
// than the adapter moves at once: BUFFER_OVERFLOW. Bad flags: INVALID_PARAMETER_4 or _6. Read with a
// negotiated outbound limit of 0: INVALID_DEVICE_REQUEST. Posting does not allocate.
// Thread rule: serialise posting per queue (receive, initiator); Flush and closing may race with it.
class QueuePair {
 public:
  QueuePair() = default;

  Status Receive(void* request_context, std::span<const Sge> sges);
  Status Send(void* request_context, std::span<const Sge> sges, std::uint32_t flags = 0);
  Status SendAndInvalidate(void* request_context, std::span<const Sge> sges, std::uint32_t remote_token,
                           std::uint32_t flags = 0);
  Status Write(void* request_context, std::span<const Sge> sges, std::uint64_t remote_address,
               std::uint32_t remote_token, std::uint32_t flags = 0);
  Status Read(void* request_context, std::span<const Sge> sges, std::uint64_t remote_address,
              std::uint32_t remote_token, std::uint32_t flags = 0);
  // Opens [address, address + length) of `region` through `window`; flags: kOpAllowRead, kOpAllowWrite.
  Status BindWindow(void* request_context, MemoryRegion& region, MemoryWindow& window, void* address,
                    std::size_t length, std::uint32_t flags);
  Status Invalidate(void* request_context, MemoryWindow& window, std::uint32_t flags = 0);
  // Every outstanding request completes CANCELED, in posting order. Any state.
  Status Flush();

  // ND2: pending Connect, Accept and Disconnect complete CANCELED and a live connection is dropped.
  Status Close(Request* request = nullptr);
  // NDK: pends until the connector that uses it is closed.
  Status NdkClose(Request* request = nullptr);

  struct Impl;
  explicit QueuePair(std::shared_ptr<Impl> impl);
  const std::shared_ptr<Impl>& impl() const { return impl_; }

 private:
  std::shared_ptr<Impl> impl_;
};

}  // namespace nd
