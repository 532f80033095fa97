// SPDX-License-Identifier: Apache-2.0
// The engine that both transports share: posting rules, completion order, the end of a connection.
//
// Thread rule: any thread; one spin lock per queue pair guards everything. Callbacks of QpOptions run after
// every lock is released, on the thread that made the progress; one may still be running briefly after the
// queue pair is gone, so it must own what it touches.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "provider/qp.h"
#include "provider/soft/qp/completion_queue.h"
#include "provider/soft/qp/memory.h"
#include "provider/soft/qp/srq.h"
#include "provider/soft/qp/sync.h"
#include "provider/soft/qp/transport.h"
#include "provider/soft/qp/work_queue.h"

namespace nd::provider::soft {

// Callbacks to run once no lock is held.
struct Deferred {
  std::function<void(DisconnectReason, Status)> closed;
  DisconnectReason reason = DisconnectReason::kUnknown;
  Status cause;
  std::function<void(Status)> done;
  Status status;
  // Windows and regions whose last owner may be a finished request: their end takes locks of its own.
  std::vector<std::shared_ptr<void>> released;

  explicit operator bool() const { return closed || done || !released.empty(); }
  void Run() {
    if (closed) closed(reason, std::move(cause));
    if (done) done(std::move(status));
  }
};

// DATA_OVERRUN, BUFFER_OVERFLOW; `*length` is the sum.
Status CheckSges(std::span<const Sge> sges, std::uint32_t max_sge, std::uint32_t max_bytes,
                 std::uint32_t* length);

class SoftQueuePair final : public QueuePair, public std::enable_shared_from_this<SoftQueuePair> {
 public:
  static Result<std::shared_ptr<SoftQueuePair>> Create(const std::shared_ptr<DeviceCore>& core,
                                                       const QpOptions& options);
  ~SoftQueuePair() override;

  Status Attach(HandOff hand_off) override;
  Status Receive(void* request_context, std::span<const Sge> sges) override;
  Status Send(void* request_context, std::span<const Sge> sges, std::uint32_t flags) override;
  Status SendAndInvalidate(void* request_context, std::span<const Sge> sges, std::uint32_t flags,
                           std::uint32_t remote_token) override;
  Status Write(void* request_context, std::span<const Sge> sges, std::uint64_t remote_address,
               std::uint32_t remote_token, std::uint32_t flags) override;
  Status Read(void* request_context, std::span<const Sge> sges, std::uint64_t remote_address,
              std::uint32_t remote_token, std::uint32_t flags) override;
  Status BindWindow(void* request_context, MemoryRegion& region, MemoryWindow& window, void* address,
                    std::size_t length, std::uint32_t flags) override;
  Status Invalidate(void* request_context, MemoryWindow& window, std::uint32_t flags) override;
  Status Flush() override;
  void Disconnect(Duration timeout, std::function<void(Status)> done) override;
  void Drop() override;

  // --- progress (completion queues, progress thread, shared receive queue) -----------------------------
  // One round if nobody else is at it. True when something moved.
  bool Drive(bool look_at_fd, Deferred* deferred);
  bool DriveBlocking(Deferred* deferred);
  // Arms the transport's wake-up, in the two steps of Transport. An idle or finished queue pair has fd -1.
  bool BeginSleep();
  SleepInfo PrepareToSleep(bool barrier);
  // One of its completion queues does not drive it any more, see DrivenSet.
  void SetCold() { cold_.store(true, std::memory_order_relaxed); }
  // After Notify: the progress thread comes at once if it had put this queue pair off.
  void CallThread();
  bool hungry() const { return hungry_.load(std::memory_order_relaxed); }
  // The progress thread's turn. `next`: when to come back without an event; `arm`: watch for one of `events`.
  struct Visit {
    bool put_off = false, arm = false;
    int events = 0;
    Time next = Time::max();
  };
  // In two steps, as a transport is armed: the first moves data, and is true when a barrier is needed.
  bool BeginVisit(Visit* visit, Deferred* deferred);
  void EndVisit(bool barrier, Visit* visit, Deferred* deferred);
  // Waits until no access through `stag` runs.
  void Quiesce(std::uint32_t stag);

  // --- for transports, under the lock -------------------------------------------------------------------
  // The application drove this queue pair within the last turn of the progress thread, whose next turn comes
  // by itself.
  bool application_polls() const {
    return state_ == State::kConnected && thread_away_.load(std::memory_order_relaxed);
  }
  bool live() const { return state_ == State::kConnected || state_ == State::kDisconnecting; }
  DeviceCore& core() { return *core_; }
  QpCounters& counters() { return *counters_; }
  std::uint32_t number() const { return number_; }
  WorkRing<InitiatorRequest>& initiator() { return initiator_; }
  // The next request to put on the wire, local ones done on the way; null when there is none, or a fence or
  // an error holds it back. Its memory has been checked. The transport then calls Started().
  InitiatorRequest* NextToStart();
  void Started(InitiatorRequest& request);
  void CompleteInitiator(InitiatorRequest& request, StatusCode status = StatusCode::kSuccess);
  // Completes all started requests before `position` that still wait, except Reads.
  void ConfirmBefore(std::uint64_t position);
  // Local memory of a request: ACCESS check without side effects.
  bool CheckLocal(const Sge& sge, std::uint32_t any_of_access) const;
  // The registered memory a peer names, or null with why.
  enum class Refusal { kNone, kInvalidStag, kBounds, kRights, kOtherQueuePair };
  std::byte* RemoteTarget(std::uint32_t stag, std::uint64_t address, std::uint64_t length,
                          std::uint32_t access, Refusal* why) const;
  // The receive for the Send that is arriving; null (and hungry) when none is posted.
  ReceiveRequest* CurrentReceive();
  void CompleteReceive(StatusCode status, std::uint32_t bytes, bool solicited);
  // Send with Invalidate: false when the STag is not a window bound on this queue pair.
  bool InvalidateByPeer(std::uint32_t stag);
  void OnPeerGoodbye();
  // The connection is gone. `first`: what the oldest outstanding initiator request gets.
  void OnTransportLost(DisconnectReason reason, StatusCode first = StatusCode::kCanceled);
  // Request `position` failed at the peer: earlier ones succeed, it gets `status`, the connection ends.
  void FailAt(std::uint64_t position, StatusCode status);
  // This side ends the connection.
  void EndConnection(EndCode code, DisconnectReason reason = DisconnectReason::kUnknown);

 private:
  enum class State { kIdle, kConnected, kPeerClosed, kDisconnecting, kClosed };

  SoftQueuePair(std::shared_ptr<DeviceCore> core, const QpOptions& options);
  Status Post(Op op, void* context, std::span<const Sge> sges, std::uint32_t flags,
              std::uint64_t remote_address, std::uint32_t remote_token);
  Status PostLocal(Op op, void* context, std::shared_ptr<SoftWindow> window, std::uint32_t token,
                   std::uint32_t flags);
  Status CheckPostable();
  void AfterPost();
  void RunLocal(InitiatorRequest& request);
  // Shuts one binding and waits for its users. False when it is none.
  bool EndWindow(SoftWindow& window, std::uint32_t stag);
  void Retire();
  void Report(const InitiatorRequest& request, StatusCode status);
  void CancelInitiator(StatusCode first);
  void CancelReceives();
  void SetHungry(bool hungry);
  void CloseTransport();
  void FinishDisconnect(const Status& status);
  bool Round(bool look_at_fd);
  bool ApplicationIsAtIt();
  Time NextDeadline() const;
  // Ends a locked section: moves callbacks out and frees a dead transport.
  void Leave(Deferred* deferred);
  void UpdateWatch();

  const std::shared_ptr<DeviceCore> core_;
  const std::shared_ptr<SoftCompletionQueue> receive_cq_, initiator_cq_;
  const std::shared_ptr<SoftSharedReceiveQueue> srq_;
  void* const context_;
  const std::uint32_t max_receive_sge_, max_initiator_sge_, inline_size_;
  QpCounters own_counters_;
  QpCounters* counters_;
  std::uint32_t number_ = 0;

  SpinLock lock_;
  std::atomic<bool> polled_{false}, hungry_{false}, cold_{false};
  std::atomic<bool> thread_away_{false};  // It put this queue pair off, and comes back by itself.
  State state_ = State::kIdle;
  WorkRing<InitiatorRequest> initiator_;
  WorkRing<ReceiveRequest> receives_;
  std::unique_ptr<std::byte[]> inline_storage_;
  ReceiveRequest current_;
  bool has_current_ = false;
  std::uint32_t reads_started_ = 0;  // Started and not yet done: what a read fence waits for.
  std::uint32_t read_outbound_ = 0;
  bool stopped_ = false;  // A request failed here: nothing later is started.
  bool retiring_ = false;
  std::vector<std::pair<std::uint32_t, std::weak_ptr<SoftWindow>>> windows_;  // Bound on this queue pair.

  std::unique_ptr<Transport> transport_;
  std::uint64_t watch_ = 0;  // Progress thread's id; 0: none.
  // What the progress thread will do by itself; anything beyond it needs a kick.
  bool thread_watches_write_ = false, thread_watches_read_ = true;
  Time thread_deadline_ = Time::max();
  bool transport_dead_ = false;
  bool goodbye_said_ = false, peer_goodbye_ = false;
  bool flush_on_goodbye_ = false;
  Time disconnect_deadline_ = Time::max();
  std::function<void(Status)> disconnect_done_;
  unsigned idle_rounds_ = 0;
  Deferred deferred_;
  std::function<void(DisconnectReason, Status)> on_peer_closed_;
};

}  // namespace nd::provider::soft
