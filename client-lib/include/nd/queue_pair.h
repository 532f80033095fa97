// SPDX-License-Identifier: Apache-2.0
// Queue pairs, to which an application posts work, and completion queues, from which it takes results. They
// live in this process: no call in this file, except Close, talks to the broker.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
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

// Holds the completions of any number of queue pairs. Completions of one queue (receive or initiator) of one
// queue pair appear in posting order. Every member may be called from any thread.
class CompletionQueue {
 public:
  CompletionQueue() = default;

  // Moves up to out.size() completions to the front of `out` and returns their number. Never blocks. Polling
  // also moves data, so a polling application needs no progress thread.
  std::size_t Poll(std::span<Completion> out);
  // Sleeps until Poll() would return a completion. Returns IO_TIMEOUT after `timeout`.
  Status Wait(std::chrono::nanoseconds timeout);
  // Waits for one completion and returns it.
  Result<Completion> Next(std::chrono::nanoseconds timeout = std::chrono::hours(1));

  // For event loops. Notify() arms the queue; handle() becomes readable when a completion of that kind
  // arrives; ConsumeNotification() makes it unreadable again. Poll until the queue is empty before arming it
  // again. A queue armed several times fires once: ANY includes SOLICITED, and SOLICITED includes ERRORS.
  // Armed for ANY, handle() may also become readable for work that completes nothing, such as a Read of the
  // peer. ConsumeNotification() does that work and returns false: the queue is still armed.
  Status Notify(NotifyType type);
  int handle() const;
  bool ConsumeNotification();
  // From now on a notification calls `fired` and does not make handle() readable. Call it once, before the
  // first Notify(). `fired` runs on any thread of the library, or in Notify(), Poll() or Wait(); it must only
  // hand the fact on and must not call this library. NOT_SUPPORTED: the provider's devices decide; also
  // without a progress thread.
  Status SetNotification(std::function<void()> fired);

  Status Resize(std::uint32_t depth);
  // Returns BUFFER_OVERFLOW after more completions arrived than the queue holds; the queue is unusable then.
  Status state() const;
  // Completes when the last queue pair that uses the queue is closed.
  Status Close(Request* request = nullptr);

  struct Impl;
  explicit CompletionQueue(std::shared_ptr<Impl> impl);
  const std::shared_ptr<Impl>& impl() const { return impl_; }

 private:
  std::shared_ptr<Impl> impl_;
};

// A receive queue that several queue pairs share.
class SharedReceiveQueue {
 public:
  SharedReceiveQueue() = default;
  Status Receive(void* request_context, std::span<const Sge> sges);
  // Calls `reached` once when fewer than `limit` receives are left after one was taken, or when one is wanted
  // and none is left. 0: never. `reached` runs on any thread of the library and must only hand the fact on.
  // NOT_SUPPORTED: the provider's devices decide.
  Status SetLimit(std::uint32_t limit, std::function<void()> reached);
  // Posted receives stay. BUFFER_OVERFLOW: there are more of them than the new depth; INVALID_PARAMETER_1:
  // 0, or more than the adapter allows. NOT_SUPPORTED: the provider's devices decide.
  Status Resize(std::uint32_t depth);
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

// A queue pair. Receive may be posted in any state. Without AllowEarlyRequests() every other post returns
// CONNECTION_INVALID until the queue pair is connected. Posting returns
//   NO_MORE_ENTRIES         when the queue is full,
//   DATA_OVERRUN            when there are more elements than the queue pair was created for,
//   BUFFER_OVERFLOW         when there are more bytes than the adapter moves in one request,
//   INVALID_PARAMETER_4/_6  when a flag is unknown or not allowed,
//   INVALID_DEVICE_REQUEST  for a Read when the negotiated outbound read limit is 0.
// Posting does not allocate.
// Thread rule: the caller serialises posts to one queue (receive or initiator). Flush and Close may run at
// the same time as a post.
class QueuePair {
 public:
  QueuePair() = default;

  // Allows requests to be posted before the queue pair is connected; they wait for the connection.
  // NOT_SUPPORTED: the devices of this provider decide.
  Status AllowEarlyRequests();
  // Sets how long a Send of the peer may wait for a receive of this side; nanoseconds::max() means for ever.
  // The default is one second. When the time is over, this side ends the connection, and the Send completes
  // with IO_TIMEOUT and kCompletionNoReceive. Applies to Sends that arrive after the call. INVALID_PARAMETER:
  // negative. NOT_SUPPORTED: the devices of this provider decide.
  Status SetReceivePatience(std::chrono::nanoseconds patience);

  // Restricts what requests of both sides may use. Applies to requests that are executed later.
  // NOT_SUPPORTED: the provider's devices decide.
  Status SetProtection(const Protection& protection);

  Status Receive(void* request_context, std::span<const Sge> sges);
  Status Send(void* request_context, std::span<const Sge> sges, std::uint32_t flags = 0);
  Status SendAndInvalidate(void* request_context, std::span<const Sge> sges, std::uint32_t remote_token,
                           std::uint32_t flags = 0);
  Status Write(void* request_context, std::span<const Sge> sges, std::uint64_t remote_address,
               std::uint32_t remote_token, std::uint32_t flags = 0);
  Status Read(void* request_context, std::span<const Sge> sges, std::uint64_t remote_address,
              std::uint32_t remote_token, std::uint32_t flags = 0);
  // Requests with immediate data and atomic operations go beyond Network Direct. They return NOT_SUPPORTED
  // when the peer does not know them: over the provider verbs, to other implementations of iWARP, and to
  // older versions. The receive of the peer completes with kCompletionImmediate.
  Status SendWithImmediate(void* request_context, std::span<const Sge> sges, std::uint32_t immediate,
                           std::uint32_t flags = 0);
  // A Write that also completes a receive of the peer, with kCompletionOfWrite. The memory of that receive
  // does not change. kOpSendAndSolicit is allowed.
  Status WriteWithImmediate(void* request_context, std::span<const Sge> sges, std::uint64_t remote_address,
                            std::uint32_t remote_token, std::uint32_t immediate, std::uint32_t flags = 0);
  // Atomic operations on the 8 bytes at `remote_address`, which must be a multiple of 8, in a region with
  // kAllowRemoteAtomic. `result` names 8 bytes, which receive the previous value. Atomic operations count
  // against the read limits.
  Status FetchAdd(void* request_context, const Sge& result, std::uint64_t remote_address,
                  std::uint32_t remote_token, std::uint64_t add, std::uint32_t flags = 0);
  // Stores `swap` if the value is `compare`.
  Status CompareSwap(void* request_context, const Sge& result, std::uint64_t remote_address,
                     std::uint32_t remote_token, std::uint64_t compare, std::uint64_t swap,
                     std::uint32_t flags = 0);
  // Lets the peer access [address, address + length) of `region` through `window`. `flags` are kOpAllowRead
  // and kOpAllowWrite.
  Status BindWindow(void* request_context, MemoryRegion& region, MemoryWindow& window, void* address,
                    std::size_t length, std::uint32_t flags);
  Status Invalidate(void* request_context, MemoryWindow& window, std::uint32_t flags = 0);
  // Binds a verbs window. A mistake in `binding` is ACCESS_VIOLATION of the completion; the connection ends
  // with it. `region` may be null when the length is 0.
  Status BindVerbsWindow(void* request_context, MemoryRegion* region, MemoryWindow& window,
                         const WindowBinding& binding, std::uint32_t flags = 0);
  // Invalidates the window of type 2 that is bound on this queue pair with this token; ACCESS_VIOLATION of
  // the completion when there is none.
  Status InvalidateToken(void* request_context, std::uint32_t token, std::uint32_t flags = 0);
  // Completes every outstanding request with CANCELED, in posting order. Allowed in any state.
  Status Flush();

  // ND2: completes a pending Connect, Accept or Disconnect with CANCELED and drops a live connection.
  Status Close(Request* request = nullptr);
  // NDK: completes when the connector that uses the queue pair is closed.
  Status NdkClose(Request* request = nullptr);

  struct Impl;
  explicit QueuePair(std::shared_ptr<Impl> impl);
  const std::shared_ptr<Impl>& impl() const { return impl_; }

 private:
  std::shared_ptr<Impl> impl_;
};

}  // namespace nd
