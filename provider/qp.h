// SPDX-License-Identifier: Apache-2.0
// The client half of a provider: memory, queues and queue pairs inside the application's process.
//
// The public classes in <nd/...> are thin handles over these. Statuses are those of docs/status.md, data
// path. Thread rule: posting to one queue of a queue pair is serialised by the caller; everything else may
// be called from any thread. No call blocks unless its comment says so; none calls into application code
// except through the callbacks that it was given, which run on whatever thread made progress and must only
// hand the fact on.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "base/clock.h"
#include "nd/protection.h"
#include "nd/status.h"
#include "nd/types.h"
#include "provider/counters.h"
#include "provider/hand_off.h"

namespace nd::provider {

inline Status NotSupported() {
  return {StatusCode::kNotSupported, "this provider does not do this"};
}

// Zeroed memory that same-host peers can be allowed to map: one sealed memfd, one mapping.
class Buffer {
 public:
  virtual ~Buffer() = default;
  virtual std::byte* data() const = 0;
  virtual std::size_t size() const = 0;
};

class MemoryRegion {
 public:
  virtual ~MemoryRegion() = default;
  virtual std::uint32_t local_token() const = 0;
  virtual std::uint32_t remote_token() const = 0;
  // DEVICE_BUSY while a window is bound to it. Afterwards both tokens are dead; peers' accesses fail.
  virtual Status Deregister() = 0;
  // Gives the region other memory or rights under the same tokens. DEVICE_BUSY while a window is bound to it,
  // else as Register(); the region is as before then.
  virtual Status Change(void* /*address*/, std::size_t /*length*/, std::uint32_t /*access*/,
                        const RegionOptions& /*options*/) {
    return NotSupported();
  }
};

class MemoryWindow {
 public:
  virtual ~MemoryWindow() = default;
  // Of the newest bind; changes with each Bind. 0 before the first. Of a verbs window: the token of its
  // creation, whose low 8 bits a bind may change.
  virtual std::uint32_t remote_token() const = 0;
};

class CompletionQueue {
 public:
  virtual ~CompletionQueue() = default;
  // Fills the front of `out`, returns how many. Makes progress on the attached queue pairs first when it
  // would return nothing.
  virtual std::size_t Poll(std::span<Completion> out) = 0;
  // The next three: a provider without notifications does not override them.
  // Arms the handle: it becomes readable when a completion of that kind arrives (at once, when one already
  // waits for kAny). Merge rule: ANY absorbs all, SOLICITED absorbs ERRORS.
  virtual Status Notify(NotifyType /*type*/) { return NotSupported(); }
  // Readable when an armed notification fired, and sometimes for other work; ConsumeNotification() does that
  // work and resets it. It returns false when the notification is still pending.
  virtual int handle() const { return -1; }
  virtual bool ConsumeNotification() { return true; }
  // From now on a notification that fires calls `fired` and leaves the handle alone. Called once, before the
  // first Notify(). `fired` runs on whatever thread made progress, with locks held, or in Notify().
  virtual Status SetNotification(std::function<void()> /*fired*/) { return NotSupported(); }
  // Blocks until Poll() would return something. IO_TIMEOUT at the deadline. CANCELED when closed meanwhile.
  virtual Status Wait(Time /*deadline*/) { return NotSupported(); }
  virtual Status Resize(std::uint32_t /*depth*/) { return NotSupported(); }
  // BUFFER_OVERFLOW once the queue overran; it is lost then.
  virtual Status state() const { return {}; }
};

class SharedReceiveQueue {
 public:
  virtual ~SharedReceiveQueue() = default;
  virtual Status Receive(void* request_context, std::span<const Sge> sges) = 0;
  // Calls `reached` once when fewer than `limit` receives are left after one was taken, or when one is wanted
  // and none is left. 0: never. `reached` runs on whatever thread made progress, without a lock.
  virtual Status SetLimit(std::uint32_t /*limit*/, std::function<void()> /*reached*/) {
    return NotSupported();
  }
  // BUFFER_OVERFLOW: more receives are posted than the new depth; the queue is as before then.
  virtual Status Resize(std::uint32_t /*depth*/) { return NotSupported(); }
};

struct QpOptions {
  std::shared_ptr<CompletionQueue> receive_cq, initiator_cq;
  std::shared_ptr<SharedReceiveQueue> srq;  // May be null.
  void* context = nullptr;                  // queue_pair_context of its completions.
  std::uint32_t receive_depth = 0, initiator_depth = 0;
  std::uint32_t max_receive_sge = 0, max_initiator_sge = 0;
  std::uint32_t inline_size = 0;
  QpCounters* counters = nullptr;  // Outlives the queue pair; null: private ones.
  // Called once, for the goodbye of the peer or the loss of the transport. The status tells more than the
  // reason where the transport knows more; otherwise it is SUCCESS.
  std::function<void(DisconnectReason, Status)> on_peer_closed;
};

class QueuePair {
 public:
  virtual ~QueuePair() = default;  // Drops a live connection (the peer sees a lost process).

  // True: the queue pair sees the goodbye of its peer, and flushes then by itself when the hand-over says so
  // (kHandOffFlushOnGoodbye). False: the broker sees it, and the library flushes.
  virtual bool sees_goodbye() const { return true; }
  // Device-wide number for providers whose queue pair lives in the device, else 0.
  virtual std::uint32_t device_number() const { return 0; }
  // From now on counts in `counters`. Called before anything was posted, and only where Device::numbered().
  virtual void UseCounters(QpCounters* counters) { static_cast<void>(counters); }

  // Applies the attributes of CmSink::OnPrepare, once, before Attach. Receives posted so far stay posted.
  // NOT_SUPPORTED: this provider's queue pairs need none. INVALID_PARAMETER: not attributes of this provider.
  virtual Status Prepare(std::span<const std::uint8_t> attributes) {
    static_cast<void>(attributes);
    return {StatusCode::kNotSupported, "queue pairs of this provider need no preparation"};
  }

  // Adopts an established transport. Checks everything in it; on failure the descriptors are closed and
  // the queue pair is as before. Receives posted so far stay posted.
  virtual Status Attach(HandOff hand_off) = 0;

  // From now on requests may be posted before Attach; they wait for it. A request that the connection does
  // not allow then completes with the status that its post would have returned.
  virtual Status AllowEarlyRequests() { return NotSupported(); }

  // How long a Send of the peer waits for a receive of this side before this side ends the connection;
  // applies to Sends that arrive later. Duration::max(): for ever. The default is one second.
  virtual Status SetReceivePatience(Duration /*patience*/) { return NotSupported(); }

  // Applies to requests that are executed later.
  virtual Status SetProtection(const Protection& /*protection*/) { return NotSupported(); }

  virtual Status Receive(void* request_context, std::span<const Sge> sges) = 0;
  virtual Status Send(void* request_context, std::span<const Sge> sges, std::uint32_t flags) = 0;
  // A provider that lacks one of these operations does not override it.
  virtual Status SendAndInvalidate(void* /*request_context*/, std::span<const Sge> /*sges*/,
                                   std::uint32_t /*flags*/, std::uint32_t /*remote_token*/) {
    return NotSupported();
  }
  virtual Status Write(void* /*request_context*/, std::span<const Sge> /*sges*/,
                       std::uint64_t /*remote_address*/, std::uint32_t /*remote_token*/,
                       std::uint32_t /*flags*/) {
    return NotSupported();
  }
  virtual Status Read(void* /*request_context*/, std::span<const Sge> /*sges*/,
                      std::uint64_t /*remote_address*/, std::uint32_t /*remote_token*/,
                      std::uint32_t /*flags*/) {
    return NotSupported();
  }
  // The next four: NOT_SUPPORTED also when the peer does not know them.
  virtual Status SendWithImmediate(void* /*request_context*/, std::span<const Sge> /*sges*/,
                                   std::uint32_t /*immediate*/, std::uint32_t /*flags*/) {
    return NotSupported();
  }
  // Takes a receive of the peer, whose memory stays as it is.
  virtual Status WriteWithImmediate(void* /*request_context*/, std::span<const Sge> /*sges*/,
                                    std::uint64_t /*remote_address*/, std::uint32_t /*remote_token*/,
                                    std::uint32_t /*immediate*/, std::uint32_t /*flags*/) {
    return NotSupported();
  }
  // `result` gets the 8 bytes that were there before.
  virtual Status FetchAdd(void* /*request_context*/, const Sge& /*result*/, std::uint64_t /*remote_address*/,
                          std::uint32_t /*remote_token*/, std::uint64_t /*add*/, std::uint32_t /*flags*/) {
    return NotSupported();
  }
  virtual Status CompareSwap(void* /*request_context*/, const Sge& /*result*/,
                             std::uint64_t /*remote_address*/, std::uint32_t /*remote_token*/,
                             std::uint64_t /*compare*/, std::uint64_t /*swap*/, std::uint32_t /*flags*/) {
    return NotSupported();
  }
  virtual Status BindWindow(void* /*request_context*/, MemoryRegion& /*region*/, MemoryWindow& /*window*/,
                            void* /*address*/, std::size_t /*length*/, std::uint32_t /*flags*/) {
    return NotSupported();
  }
  // Invalidates a window of this side (local operation, ordered with the initiator queue).
  virtual Status Invalidate(void* /*request_context*/, MemoryWindow& /*window*/, std::uint32_t /*flags*/) {
    return NotSupported();
  }
  // A bind of a verbs window. ACCESS_VIOLATION of its completion: outside the region, a right that the region
  // lacks, a window of type 2 that is bound. `region` may be null when the length is 0.
  virtual Status BindVerbsWindow(void* /*request_context*/, MemoryRegion* /*region*/,
                                 MemoryWindow& /*window*/, const WindowBinding& /*binding*/,
                                 std::uint32_t /*flags*/) {
    return NotSupported();
  }
  // Invalidates the window of type 2 that is bound on this queue pair with this token. ACCESS_VIOLATION of
  // its completion: there is none.
  virtual Status InvalidateToken(void* /*request_context*/, std::uint32_t /*token*/,
                                 std::uint32_t /*flags*/) {
    return NotSupported();
  }
  // Completes every outstanding request CANCELED, receives and initiator requests each in posting order.
  virtual Status Flush() = 0;

  // Graceful goodbye: outstanding initiator requests are let finish on the wire, then the goodbye goes out;
  // when the peer's answer (its own goodbye) came or `timeout` passed, everything is flushed, then `done`
  // runs once: SUCCESS or IO_TIMEOUT.
  virtual void Disconnect(Duration timeout, std::function<void(Status)> done) = 0;
  // Ends the transport at once and flushes. on_peer_closed does not run.
  virtual void Drop() = 0;
};

// The way from a client half that makes the connections to its daemon half (provider/halves_record.h).
class DaemonHalf {
 public:
  virtual ~DaemonHalf() = default;
  // Any thread, without a lock that OnDaemonMessage() takes, because the call may wait for room in the lane.
  // DEVICE_REMOVED: the broker is away; the message is dropped.
  virtual Status Send(std::span<const std::byte> message) = 0;
};

class Device {
 public:
  virtual ~Device() = default;
  // The next five are for a provider whose client half makes the connections. transport() is the number of
  // its hand-overs; kNone: there are no messages between the halves.
  virtual TransportKind transport() const { return TransportKind::kNone; }
  // Called once, before any other object is made. Waits for the answer of the daemon half; any status but
  // SUCCESS means that the device cannot be used.
  virtual Status Meet(std::shared_ptr<DaemonHalf> /*daemon*/) { return NotSupported(); }
  // Called by one thread at a time, with locks held; it must only hand the message on.
  virtual void OnDaemonMessage(std::span<const std::byte> /*message*/) {}
  // Another broker answers, which knows nothing of this device: meets it too, without waiting. Endpoints and
  // attempts of the former broker are void; connections that queue pairs have stay.
  virtual void OnDaemonBack() {}
  // Called when Listen for `local` has completed: waits until the order for it, which came before, is carried
  // out. The status is the adapter's answer. Not on a thread that delivers messages.
  virtual Status AwaitListening(const Address& /*local*/) { return {}; }
  // True: the broker must know the device_number() of a queue pair from the beginning, so the queue pair is
  // made first, without counters.
  virtual bool numbered() const { return false; }
  virtual Result<std::shared_ptr<CompletionQueue>> CreateCompletionQueue(std::uint32_t depth) = 0;
  // A provider that lacks one of these does not override it.
  virtual Result<std::shared_ptr<Buffer>> AllocateBuffer(std::size_t /*size*/) { return NotSupported(); }
  // `address` stays the application's and must stay mapped. Any memory; inside a Buffer it is shareable.
  virtual Result<std::shared_ptr<MemoryRegion>> Register(void* /*address*/, std::size_t /*length*/,
                                                         std::uint32_t /*access*/) {
    return NotSupported();
  }
  virtual Result<std::shared_ptr<MemoryRegion>> RegisterAs(void* /*address*/, std::size_t /*length*/,
                                                           std::uint32_t /*access*/,
                                                           const RegionOptions& /*options*/) {
    return NotSupported();
  }
  virtual Result<std::shared_ptr<MemoryWindow>> CreateWindow() { return NotSupported(); }
  // Not kNetworkDirect.
  virtual Result<std::shared_ptr<MemoryWindow>> CreateVerbsWindow(WindowKind /*kind*/) {
    return NotSupported();
  }
  virtual Result<std::shared_ptr<SharedReceiveQueue>> CreateSharedReceiveQueue(std::uint32_t /*depth*/,
                                                                               std::uint32_t /*max_sge*/) {
    return NotSupported();
  }
  virtual Result<std::shared_ptr<QueuePair>> CreateQueuePair(const QpOptions& options) = 0;
};

struct DeviceOptions {
  // One background thread per process moves data while the application sleeps. Off: only Poll and Wait do.
  bool progress_thread = true;
};

}  // namespace nd::provider
