// SPDX-License-Identifier: Apache-2.0
// The engine that both transports share: posting rules, completion order, the end of a connection.
//
// Thread rule: any thread; one spin lock per queue pair guards everything. Callbacks of QpOptions run after
// every lock is released, on the thread that made the progress; one may still run briefly after the end of
// the queue pair, so it must own the objects it uses.
#pragma once

#include <atomic>
#include <cstring>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "base/os/memory_fault.h"
#include "provider/qp.h"
#include "provider/soft/qp/biased_lock.h"
#include "provider/soft/qp/completion_queue.h"
#include "provider/soft/qp/deferred.h"
#include "provider/soft/qp/drive/duty.h"
#include "provider/soft/qp/memory.h"
#include "provider/soft/qp/srq.h"
#include "provider/soft/qp/transport.h"
#include "provider/soft/qp/work_queue.h"

namespace nd::provider::soft {

class ProgressThread;

class SoftQueuePair final : public QueuePair, public std::enable_shared_from_this<SoftQueuePair> {
 public:
  static Result<std::shared_ptr<SoftQueuePair>> Create(const std::shared_ptr<DeviceCore>& core,
                                                       const QpOptions& options);
  ~SoftQueuePair() override;

  Status Attach(HandOff hand_off) override;
  Status AllowEarlyRequests() override;
  Status SetReceivePatience(Duration patience) override;
  Status SetProtection(const Protection& protection) override;
  Status Receive(void* request_context, std::span<const Sge> sges) override;
  Status Send(void* request_context, std::span<const Sge> sges, std::uint32_t flags) override;
  Status SendAndInvalidate(void* request_context, std::span<const Sge> sges, std::uint32_t flags,
                           std::uint32_t remote_token) override;
  Status Write(void* request_context, std::span<const Sge> sges, std::uint64_t remote_address,
               std::uint32_t remote_token, std::uint32_t flags) override;
  Status Read(void* request_context, std::span<const Sge> sges, std::uint64_t remote_address,
              std::uint32_t remote_token, std::uint32_t flags) override;
  Status SendWithImmediate(void* request_context, std::span<const Sge> sges, std::uint32_t immediate,
                           std::uint32_t flags) override;
  Status WriteWithImmediate(void* request_context, std::span<const Sge> sges, std::uint64_t remote_address,
                            std::uint32_t remote_token, std::uint32_t immediate,
                            std::uint32_t flags) override;
  Status FetchAdd(void* request_context, const Sge& result, std::uint64_t remote_address,
                  std::uint32_t remote_token, std::uint64_t add, std::uint32_t flags) override;
  Status CompareSwap(void* request_context, const Sge& result, std::uint64_t remote_address,
                     std::uint32_t remote_token, std::uint64_t compare, std::uint64_t swap,
                     std::uint32_t flags) override;
  Status BindWindow(void* request_context, MemoryRegion& region, MemoryWindow& window, void* address,
                    std::size_t length, std::uint32_t flags) override;
  Status Invalidate(void* request_context, MemoryWindow& window, std::uint32_t flags) override;
  Status BindVerbsWindow(void* request_context, MemoryRegion* region, MemoryWindow& window,
                         const WindowBinding& binding, std::uint32_t flags) override;
  Status InvalidateToken(void* request_context, std::uint32_t token, std::uint32_t flags) override;
  Status Flush() override;
  void Disconnect(Duration timeout, std::function<void(Status)> done) override;
  void Drop() override;

  // --- progress (completion queues, progress thread, shared receive queue) -----------------------------
  // Runs one round unless another thread does. Returns true when data moved.
  bool Drive(bool look_at_fd, Deferred* deferred);
  // The same without a look at the descriptor, and without a round while the peer has changed nothing.
  // `lent`: where completions may go; may be null.
  bool Poll(LentSpan* lent, Deferred* deferred) {
    polled_.store(true, std::memory_order_relaxed);
    if (!lock_.try_lock()) return false;
    if (quiet_.stamp != nullptr && idle_rounds_ + 1 < kRoundsBetweenLooks) {
      ++idle_rounds_;
      if (quiet_.Unchanged()) {
        lock_.unlock();
        return false;
      }
      lent_ = lent;
      if (transport_->ProgressQuiet(&quiet_)) return LeavePoll(deferred);
    }
    lent_ = lent;
    return DriveLocked(false, deferred);
  }
  // For PollSet. Asks the peer to announce in this ready page. Returns false when it cannot be asked now.
  bool AskToAnnounce(ReadyPage& page, std::uint32_t place);
  // Returns true when only an announcement of the peer can give a poll something to do. From then on, and
  // until Wake(), a call that changes this announces it itself.
  bool Rest();
  void Wake() { resting_.store(false, std::memory_order_relaxed); }
  // The next poll makes a round that checks the descriptor.
  void LookSoon();
  // What an empty poll costs, for PollSet.
  std::uint32_t poll_cost() const { return poll_cost_; }
  bool DriveBlocking(Deferred* deferred);
  // Called before a thread sleeps, in two steps with one barrier for all queue pairs between them
  // (ArmForSleep). Arm() returns true when the barrier is needed; `ordered`: it was made, or is not needed.
  bool Arm();
  Interest Settle(Sleeper sleeper, bool ordered);
  // As those of the transport, behind Settle().
  bool SleepOnWord(os::SleptOn* slept_on);
  bool LeaveWord();
  // The visit of the progress thread. Returns false when the application polls, so that this queue pair is
  // left to the polls.
  bool Serve(Deferred* deferred);
  // Notify was called: calls the progress thread if it had left this queue pair to the polls.
  void ExpectSleep();
  // One of its completion queues does not poll it any more, see PollSet.
  void SetCold() { cold_.store(true, std::memory_order_relaxed); }
  // True while a Send is held because no receive is posted.
  bool starved() const { return starved_.load(std::memory_order_relaxed); }
  // True while the peer accesses memory through `stag`, which has left the table.
  bool PeerTouches(std::uint32_t stag);
  // True when the process of the peer is known to be there.
  bool PeerLives();
  // The peer did not stop in time: ends the connection.
  void EndIfPeerTouches(std::uint32_t stag, Deferred* deferred);

  // --- for transports, under the lock -------------------------------------------------------------------
  // The progress thread has left this queue pair to the application's polls.
  bool application_polls() const { return state_ == State::kConnected && duty_ == Duty::kPutOff; }
  bool live() const { return state_ == State::kConnected || state_ == State::kDisconnecting; }
  DeviceCore& core() { return *core_; }
  QpCounters& counters() { return *counters_; }
  std::uint32_t number() const { return number_; }
  const Protection& protection() const { return protection_; }
  // How long a Send of the peer waits for a receive; Duration::max(): for ever.
  Duration receive_patience() const { return receive_patience_; }
  WorkRing<InitiatorRequest>& initiator() { return initiator_; }
  // True: this round accessed registered memory that the application has unmapped. Bytes of it must not reach
  // the peer, and requests must not succeed. The connection ends with the round.
  [[gnu::always_inline]] bool MemoryGone() {
    if (os::MemoryFaults() == faults_seen_) [[likely]]
      return false;
    return LearnFault();
  }
  // Somebody waits for the end of outstanding requests: for a completion, for room, or to disconnect. Also
  // true when it would take a long search to find out.
  bool AwaitsReport() const;
  // The bytes of this request could not be read.
  void WithholdRequest(std::uint64_t position);
  // Returns the next request for the wire and executes local requests before it; null when there is none or a
  // fence or an error holds it back. Its memory is checked. The transport then calls Started().
  InitiatorRequest* NextToStart() {
    if (stopped_ || initiator_.next == initiator_.head) return nullptr;
    InitiatorRequest& next = initiator_.at(initiator_.next);
    return MayStart(next, next.op) ? &next : NextOfAnyKind();
  }
  // The common cases of NextToStart(), for the next request. `op`: its operation.
  [[gnu::always_inline]] bool MayStart(const InitiatorRequest& next, Op op) {
    const std::uint32_t access = IsAnswered(op) ? kAllowLocalWrite | kRdmaReadSink : 0u;
    const bool plain = op <= Op::kCompareSwap && !stopped_ && (next.flags & kOpReadFence) == 0 &&
                       next.status == StatusCode::kSuccess;
    return plain &&
           (next.is_inline || (next.list.count == 1 && CheckAgain(&sent_from_, next.list.sges[0], access)));
  }
  void Started(InitiatorRequest& request) { Started(request, request.op); }
  // `op`: its operation.
  [[gnu::always_inline]] void Started(InitiatorRequest& request, Op op) {
    request.started = true;
    ++initiator_.next;
    if (IsAnswered(op)) ++reads_started_;
    CountStarted(op, request.list.length);
  }
  [[gnu::always_inline]] void CountStarted(Op op, std::uint32_t length) {
    if (IsAnswered(op)) return QpCounters::Add(counters_->tx_reads, 1);
    QpCounters::Add(IsWrite(op) ? counters_->tx_writes : counters_->tx_sends, 1);
    QpCounters::Add(counters_->tx_bytes, length);
  }
  // `length` bytes of an answer were copied at once.
  void CountCopiedAnswer(std::uint32_t length) {
    QpCounters::Add(counters_->rx_bytes, length);
    if (counters_->reads_in_flight_max.load(std::memory_order_relaxed) == 0)
      counters_->reads_in_flight_max.store(1, std::memory_order_relaxed);
  }
  void CompleteInitiator(InitiatorRequest& request, StatusCode status = StatusCode::kSuccess);
  // Requests that are not answered succeeded: Confirm() for each, then RetireConfirmed().
  void Confirm(std::uint64_t position) { initiator_.at(position).done = true; }
  void RetireConfirmed() { Retire(); }
  // The request, which is started, succeeded, and is the only one that is outstanding. Returns false in any
  // other case, for CompleteInitiator().
  bool CompleteOnly(InitiatorRequest& request) {
    if (initiator_.tail + 1 != initiator_.head || state_ != State::kConnected || MemoryGone()) return false;
    request.done = true;
    if (IsAnswered(request.op)) --reads_started_;
    Report(request, StatusCode::kSuccess);
    ++initiator_.tail;
    return true;
  }
  // Completes all started requests before `position`, except those that are answered.
  void ConfirmBefore(std::uint64_t position);
  // Checks the access rights of local memory of a request.
  bool CheckLocal(const Sge& sge, std::uint32_t any_of_access) const {
    return sge.length == 0 ||
           AllowsLocal(regions_, sge.local_token, reinterpret_cast<std::uintptr_t>(sge.address), sge.length,
                       {protection_.domain, protection_.receive_domain}, any_of_access);
  }
  // As CheckLocal(). *grant remembers the region of the last call.
  [[gnu::always_inline]] bool CheckAgain(LocalGrant* grant, const Sge& sge, std::uint32_t any_of_access) {
    const auto address = reinterpret_cast<std::uintptr_t>(sge.address);
    const std::uint64_t changes = region_changes_.load(std::memory_order_acquire);
    return grant->Covers(sge.local_token, address, sge.length, any_of_access, changes) ||
           CheckAndLearn(grant, sge, any_of_access, changes);
  }
  // Finds the registered memory that a peer names; null with the reason. No byte is of every region: devices
  // do not look at its STag either, and programs use empty Writes to learn that those before have arrived.
  enum class Refusal {
    kNone,
    kInvalidStag,
    kBounds,
    kRights,
    kOtherQueuePair
  };  // kOtherQueuePair: or domain.
  std::byte* RemoteTarget(std::uint32_t stag, std::uint64_t address, std::uint64_t length,
                          std::uint32_t access, Refusal* why) const;
  // The common case of an arriving Send: it is whole, and one element of the oldest receive takes it.
  // Returns false in any other case; the caller then takes the steps one by one.
  [[gnu::always_inline]] bool DeliverWhole(const std::byte* from, std::uint32_t length, bool solicited) {
    if (srq_ || has_current_ || starved() || receives_.empty()) [[unlikely]]
      return false;
    const ReceiveRequest& receive = receives_.at(receives_.tail);
    const Sge& sge = receive.list.sges[0];
    if (receive.list.count != 1 || length > sge.length) [[unlikely]]
      return false;
    if (length != 0) [[likely]] {
      if (!CheckAgain(&received_into_, sge, kAllowLocalWrite)) [[unlikely]]
        return false;
      auto* const to = static_cast<std::byte*>(sge.address);
      length <= kMostWithoutCall ? CopySmall(to, from, length)
                                 : static_cast<void>(std::memcpy(to, from, length));
    }
    if (MemoryGone()) [[unlikely]]
      return false;
    ++receives_.tail;
    QpCounters::Add(counters_->rx_sends, 1);
    QpCounters::Add(counters_->rx_bytes, length);
    Complete(*receive_cq_, RequestType::kReceive, receive.context, StatusCode::kSuccess, length, solicited);
    return true;
  }
  // The receive for the arriving Send; null, and starved, when none is posted.
  ReceiveRequest* CurrentReceive();
  // `flags`: CompletionFlags.
  void CompleteReceive(StatusCode status, std::uint32_t bytes, bool solicited, std::uint8_t flags = 0,
                       std::uint32_t immediate = 0);
  // Send with Invalidate: false when the STag is not a window bound on this queue pair.
  bool InvalidateByPeer(std::uint32_t stag);
  void OnPeerGoodbye();
  // The connection is lost. `first`: the status of the oldest outstanding initiator request.
  void OnTransportLost(DisconnectReason reason, StatusCode first = StatusCode::kCanceled);
  // Request `position` failed at the peer for this reason: earlier ones succeed, it completes with the status
  // of the reason, and the connection ends.
  void FailAt(std::uint64_t position, EndCode why);
  // This side ends the connection.
  void EndConnection(EndCode code, DisconnectReason reason = DisconnectReason::kUnknown);

 private:
  // A poll reads memory only. Every so many rounds it also checks the descriptor.
  static constexpr unsigned kRoundsBetweenLooks = 1024;

  enum class State { kIdle, kConnected, kPeerClosed, kDisconnecting, kClosed };

  SoftQueuePair(std::shared_ptr<DeviceCore> core, const QpOptions& options);
  Status Post(Op op, void* context, std::span<const Sge> sges, std::uint32_t flags,
              std::uint64_t remote_address, std::uint32_t remote_token, const Operands* operands = nullptr);
  // The common case, whose flags are some of `common`. Returns false in any other case, and for a request
  // that Post() refuses; nothing was done then.
  bool PostOne(Op op, void* context, std::span<const Sge> sges, std::uint32_t flags, std::uint32_t common,
               std::uint64_t remote_address, std::uint32_t remote_token);
  // The same for a Write or a Read that Transport::CopyAtOnce() completes. With the lock.
  bool CopyOne(Op op, void* context, const Sge& sge, std::uint32_t flags, std::uint64_t remote_address,
               std::uint32_t remote_token);
  // That accessed registered memory that the application has unmapped.
  void CompleteWithGoneMemory(Op op, void* context, const Sge& sge, std::uint32_t flags);
  bool ReceiveOne(void* context, std::span<const Sge> sges);
  Status PostAtomic(Op op, void* context, const Sge& result, std::uint64_t remote_address,
                    std::uint32_t remote_token, std::uint32_t flags, const Operands& operands);
  Status PostLocal(Op op, void* context, std::shared_ptr<SoftWindow> window, std::uint32_t token,
                   std::uint32_t flags, std::unique_ptr<VerbsBind> bind = nullptr);
  // PostLocal() with the lock.
  Status PostGuarded(Op op, void* context, std::shared_ptr<SoftWindow> window, std::uint32_t token,
                     std::uint32_t flags, std::unique_ptr<VerbsBind> bind);
  Status CheckPostable(RequestType type) const;
  // Posted before Attach.
  bool early() const { return early_requests_ && state_ == State::kIdle; }
  // After Attach: those of the early requests that the connection does not allow will fail.
  void JudgeEarlyRequests();
  // `length`: of all elements.
  static void CopyInline(InitiatorRequest& request, std::span<const Sge> sges, std::uint32_t length);
  void AfterPost();
  // With a connection.
  void StartPosted() {
    if (!transport_->StartAtOnce(&quiet_)) {
      quiet_.stamp = nullptr;  // The next round has something to do.
      transport_->Transmit();
    }
    EndIfMemoryGone();
    ReportUndone();
    EndRest();
  }
  // The end of a section that may have given the next poll something to do.
  void EndRest() {
    if (resting_.load(std::memory_order_relaxed)) [[unlikely]]
      AnnounceToPolls();
  }
  void AnnounceToPolls();
  bool LearnFault();
  bool CheckAndLearn(LocalGrant* grant, const Sge& sge, std::uint32_t any_of_access, std::uint64_t changes);
  // A request of this queue pair has completed. `flags`: CompletionFlags.
  [[gnu::always_inline]] void Complete(SoftCompletionQueue& queue, RequestType type, void* request_context,
                                       StatusCode status, std::uint32_t bytes, bool solicited,
                                       std::uint8_t flags = 0, std::uint32_t immediate = 0) {
    if (lent_ == nullptr || lent_->queue != &queue || lent_->next == lent_->end || !queue.MayBypass())
      return queue.Push({status, bytes, context_, request_context, type, flags, immediate}, solicited);
    Completion& done = *lent_->next++;
    done.status = status;
    done.bytes_transferred = bytes;
    done.queue_pair_context = context_;
    done.request_context = request_context;
    done.type = type;
    done.flags = flags;
    done.immediate = immediate;
  }
  void EndIfMemoryGone() {
    if (MemoryGone()) [[unlikely]]
      EndForGoneMemory();
  }
  void EndForGoneMemory();
  InitiatorRequest* NextOfAnyKind();
  void RunLocal(InitiatorRequest& request);
  bool RunVerbsBind(InitiatorRequest& request);
  // Ends one binding and waits for its users. Returns false for an unknown one.
  bool EndWindow(SoftWindow& window, std::uint32_t stag);
  void Retire();
  void Report(const InitiatorRequest& request, StatusCode status);
  void CancelInitiator(StatusCode first);
  void CancelReceives();
  void SetStarved(bool starved);
  // Lets the thread watch the transport. *call: its id if the thread has to be called, without the lock.
  // Returns false when the kernel refuses to watch.
  bool GiveTo(ProgressThread& progress, std::uint64_t* call);
  void CloseTransport();
  void FinishDisconnect(const Status& status);
  bool Round(bool look_at_fd);
  // Returns true when a deadline has ended the connection.
  bool CheckDeadlines();
  // Called by the progress thread: polls have read the announcements since its last visit.
  bool AnnouncementsPolled();
  // Called by the progress thread. Notify calls it from then on.
  bool MayLeaveToPolls();
  // Poll() and Drive() with the lock, which they release.
  bool DriveLocked(bool look_at_fd, Deferred* deferred);
  // The end of Poll() after a quiet queue pair has moved data: releases the lock.
  bool LeavePoll(Deferred* deferred) {
    lent_ = nullptr;
    EndIfMemoryGone();
    ReportUndone();
    LeaveQuiet(deferred);
    lock_.unlock();
    return true;
  }
  // Ends a locked section: moves callbacks out and frees a dead transport.
  void Leave(Deferred* deferred) {
    quiet_.stamp = nullptr;  // The section may have given the next round something to do.
    EndRest();
    LeaveQuiet(deferred);
  }
  // The same after a section that has kept quiet_ right.
  void LeaveQuiet(Deferred* deferred) {
    if (deferred_ || transport_dead_ || (goodbye_said_ && peer_goodbye_)) [[unlikely]]
      LeaveWithMore(deferred);
  }
  void LeaveWithMore(Deferred* deferred);
  // Only records of the peer can give a poll something to do.
  bool NeedsNoPoll() const { return quiet_.stamp != nullptr && quiet_.consumed == nullptr; }
  // After a round: decides whether the next poll may leave the round out.
  void FindQuiet() {
    if (state_ == State::kConnected && !transport_dead_ && initiator_.next == initiator_.head &&
        disconnect_deadline_ == Time::max()) {
      transport_->FindQuietWords(&quiet_);
    }
  }
  // The remaining work, for any thread.
  Interest CurrentInterest() const;
  // After data was moved: calls the watcher when the remaining work exceeds the watched interest.
  void ReportUndone() {
    if (duty_ == Duty::kWatching) ReportToWatcher();
  }
  void ReportToWatcher();
  void CallWatcher();
  void WakeSleepers();

  const std::shared_ptr<DeviceCore> core_;
  const RegionEntry* const regions_;
  const std::atomic<std::uint64_t>& region_changes_;
  const std::shared_ptr<SoftCompletionQueue> receive_cq_, initiator_cq_;
  const std::shared_ptr<SoftSharedReceiveQueue> srq_;
  void* const context_;
  const std::uint32_t max_receive_sge_, max_initiator_sge_, inline_size_, max_length_;
  QpCounters own_counters_;
  QpCounters* counters_;
  std::uint32_t number_ = 0;
  Duration receive_patience_;

  // What an empty poll uses, in one cache line.
  alignas(64) QuietWords quiet_;
  std::atomic<bool> polled_{false};   // Polled since the last visit of the progress thread.
  std::atomic<bool> resting_{false};  // Becomes true under lock_.
  unsigned idle_rounds_ = 0;          // Since the last look at the descriptor.
  BiasedLock lock_;                   // Its end, which owners do not use, is in the next line.
  LentSpan* lent_ = nullptr;          // Of the present poll.

  std::atomic<bool> starved_{false}, cold_{false};
  // While duty_ is kPutOff. The progress thread reads it without the lock, which the application owns.
  std::atomic<bool> put_off_{false};
  // Visits of the progress thread that move data although the application polled since the last one: it has
  // left data for a whole put-off, as a program does that polls its memory for the next message. Their number
  // doubles each time, until a put-off ends with a poll. Of the progress thread alone.
  static constexpr std::uint32_t kFewestPromptVisits = 8, kMostPromptVisits = 64;
  std::uint32_t prompt_visits_ = 0, next_prompt_visits_ = kFewestPromptVisits;
  State state_ = State::kIdle;
  WorkRing<InitiatorRequest> initiator_;
  WorkRing<ReceiveRequest> receives_;
  std::unique_ptr<std::byte[]> inline_storage_;
  ReceiveRequest current_;
  bool has_current_ = false;
  std::uint32_t reads_started_ = 0;  // Started and not complete; a read fence waits for them.
  std::uint32_t read_outbound_ = 0;
  bool early_requests_ = false;
  bool extensions_ = false;  // The peer knows requests with immediate data and atomic operations.
  bool stopped_ = false;     // A request failed here; no later one is started.
  bool retiring_ = false;
  bool memory_gone_ = false;
  std::uint32_t faults_seen_ = 0;
  LocalGrant sent_from_, received_into_;  // The memory of the last request of either kind.
  Protection protection_;
  // Bound on this queue pair.
  std::vector<std::pair<std::uint32_t, std::weak_ptr<SoftWindow>>> windows_;

  std::unique_ptr<Transport> transport_;
  std::uint64_t watch_ = 0;  // Its id in the progress thread; 0: no thread watches it.
  Duty duty_ = Duty::kNobody;
  Interest watched_;  // While kWatching.
  bool transport_dead_ = false;
  bool goodbye_said_ = false, peer_goodbye_ = false;
  bool flush_on_goodbye_ = false;
  Time disconnect_deadline_ = Time::max();
  std::function<void(Status)> disconnect_done_;
  std::uint32_t poll_cost_ = 0;
  // Of the poll set that has asked the peer to announce; null: none has.
  ReadyPage* ready_ = nullptr;
  std::uint32_t ready_place_ = 0;
  std::uint32_t polls_seen_ = 0;  // Of that set, at the last visit of the progress thread.
  Deferred deferred_;
  std::function<void(DisconnectReason, Status)> on_peer_closed_;
};

}  // namespace nd::provider::soft
