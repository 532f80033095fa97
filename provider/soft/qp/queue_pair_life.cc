// SPDX-License-Identifier: Apache-2.0
// From Attach to the end: who drives the transport when, goodbye, loss, flush.
#include <poll.h>
#include <sys/epoll.h>

#include <algorithm>
#include <string>

#include "provider/soft/qp/iwarp_transport.h"
#include "provider/soft/qp/progress.h"
#include "provider/soft/qp/queue_pair.h"
#include "provider/soft/qp/shm_transport.h"

namespace nd::provider::soft {
namespace {

// An application that polls sees memory only; every so often the descriptor is looked at as well.
constexpr unsigned kRoundsBetweenLooks = 1024;
// Rounds of one visit of the progress thread before other queue pairs get their turn.
constexpr int kRoundsPerVisit = 16;
// How long our own goodbye may take to leave when the peer's is here already.
constexpr Duration kLastWords = std::chrono::seconds(1);

int EventsOf(const Transport& transport) {
  static_assert(POLLIN == EPOLLIN && POLLOUT == EPOLLOUT && POLLRDHUP == EPOLLRDHUP);
  return (transport.wants_read() ? POLLIN : 0) | (transport.wants_write() ? POLLOUT : 0) |
         (transport.wants_end() ? POLLRDHUP : 0);
}

}  // namespace

Result<std::shared_ptr<SoftQueuePair>> SoftQueuePair::Create(const std::shared_ptr<DeviceCore>& core,
                                                             const QpOptions& options) {
  const AdapterInfo& info = core->info;
  auto* receive_cq = dynamic_cast<SoftCompletionQueue*>(options.receive_cq.get());
  auto* initiator_cq = dynamic_cast<SoftCompletionQueue*>(options.initiator_cq.get());
  auto* srq = dynamic_cast<SoftSharedReceiveQueue*>(options.srq.get());
  const auto bad = [](const char* what) { return Status(StatusCode::kInvalidParameter, what); };
  if (core->forked())
    return Status(StatusCode::kConnectionInvalid, "the device belongs to the parent process");
  if (receive_cq == nullptr || receive_cq->core() != core) return bad("receive_cq is not of this adapter");
  if (initiator_cq == nullptr || initiator_cq->core() != core)
    return bad("initiator_cq is not of this adapter");
  if (options.srq && (srq == nullptr || srq->core() != core)) return bad("srq is not of this adapter");
  if (!options.srq && (options.receive_depth == 0 || options.receive_depth > info.max_receive_queue_depth)) {
    return bad("receive_depth is 0 or above the adapter's maximum");
  }
  if (options.initiator_depth == 0 || options.initiator_depth > info.max_initiator_queue_depth) {
    return bad("initiator_depth is 0 or above the adapter's maximum");
  }
  if (options.max_receive_sge > info.max_receive_sge)
    return bad("max_receive_sge is above the adapter's maximum");
  if (options.max_initiator_sge > info.max_initiator_sge)
    return bad("max_initiator_sge is above the maximum");
  if (options.inline_size > info.max_inline_data_size)
    return bad("inline_size is above the adapter's maximum");
  std::shared_ptr<SoftQueuePair> queue_pair(new SoftQueuePair(core, options));
  queue_pair->number_ = core->AddQueuePair(queue_pair.get());
  queue_pair->receive_cq_->driven().Add(queue_pair.get());
  queue_pair->initiator_cq_->driven().Add(queue_pair.get());
  if (queue_pair->srq_) queue_pair->srq_->AttachQueuePair(queue_pair.get());
  return queue_pair;
}

SoftQueuePair::~SoftQueuePair() {
  if (core_->forked()) {
    if (transport_) transport_->Abandon();
    return;
  }
  receive_cq_->driven().Remove(this);
  initiator_cq_->driven().Remove(this);
  if (srq_) srq_->DetachQueuePair(this);
  core_->RemoveQueuePair(this);
  Drop();
}

Status SoftQueuePair::Attach(HandOff hand_off) {
  if (core_->forked())
    return {StatusCode::kConnectionInvalid, "the queue pair belongs to the parent process"};
  const HandOffRecord& record = hand_off.record;
  if (record.magic != HandOffRecord::kMagic || record.version != HandOffRecord::kVersion ||
      record.size != sizeof(HandOffRecord) || record.fd_count != hand_off.fds.size()) {
    return {StatusCode::kInvalidParameter, "the hand-over record is not one of this version"};
  }
  Progress* progress = core_->progress_thread ? Progress::Get() : nullptr;
  if (core_->progress_thread && progress == nullptr) {
    return {StatusCode::kInsufficientResources, "the progress thread cannot be started"};
  }
  Deferred deferred;
  int fd = -1;
  {
    SpinGuard guard(lock_);
    if (state_ != State::kIdle) {
      return {state_ == State::kClosed ? StatusCode::kInvalidDeviceState : StatusCode::kConnectionActive,
              "the queue pair has had a connection already"};
    }
    Result<std::unique_ptr<Transport>> made(StatusCode::kNotSupported, "unknown transport");
    if (record.transport == nd::provider::Transport::kShared) made = MakeShmTransport(*this, hand_off);
    if (record.transport == nd::provider::Transport::kIwarp) made = MakeIwarpTransport(*this, hand_off);
    if (!made.ok()) return made.status();
    transport_ = std::move(made).value();
    read_outbound_ = record.read_outbound;
    flush_on_goodbye_ = (record.flags & kHandOffFlushOnGoodbye) != 0;
    state_ = State::kConnected;
    fd = transport_->fd();
    CloseInForkedChild(fd);
    if (progress != nullptr) watch_ = progress->Add(weak_from_this(), fd);
    if (progress != nullptr && watch_ == 0) {
      CloseTransport();
      state_ = State::kIdle;
      return {StatusCode::kInsufficientResources, "the kernel watches no more descriptors"};
    }
    // Whatever arrived before belongs to this queue pair already.
    Round(true);
    Leave(&deferred);
  }
  for (SoftCompletionQueue* queue : {receive_cq_.get(), initiator_cq_.get()}) {
    queue->driven().Heat(number_);
    queue->TransportChanged(fd);
  }
  if (deferred) deferred.Run();
  return Status::Ok();
}

Time SoftQueuePair::NextDeadline() const {
  return std::min(disconnect_deadline_, transport_ ? transport_->deadline() : Time::max());
}

bool SoftQueuePair::Round(bool look_at_fd) {
  if (!transport_ || transport_dead_) return false;
  if (++idle_rounds_ >= kRoundsBetweenLooks) {
    idle_rounds_ = 0;
    look_at_fd = true;
  }
  const bool moved = transport_->Progress(look_at_fd);
  if (NextDeadline() == Time::max() || transport_dead_) return moved;
  const Time now = std::chrono::steady_clock::now();
  if (now >= transport_->deadline()) transport_->OnDeadline(now);
  if (now < disconnect_deadline_) return moved;
  disconnect_deadline_ = Time::max();
  transport_dead_ = true;
  if (state_ == State::kDisconnecting) {
    FinishDisconnect({StatusCode::kIoTimeout, "the peer did not answer the goodbye in time"});
  }
  return true;
}

bool SoftQueuePair::Drive(bool look_at_fd, Deferred* deferred) {
  polled_.store(true, std::memory_order_relaxed);
  if (!lock_.try_lock()) return false;
  const bool moved = Round(look_at_fd);
  UpdateWatch();  // What is left undone here must be done even if the application never comes back.
  Leave(deferred);
  lock_.unlock();
  return moved;
}

bool SoftQueuePair::DriveBlocking(Deferred* deferred) {
  SpinGuard guard(lock_);
  if (transport_ && !transport_dead_) transport_->OnReceivePosted();
  const bool moved = Round(false);
  UpdateWatch();
  Leave(deferred);
  return moved;
}

bool SoftQueuePair::BeginSleep() {
  SpinGuard guard(lock_);
  return transport_ && !transport_dead_ && transport_->BeginArm();
}

SleepInfo SoftQueuePair::PrepareToSleep(bool barrier) {
  SpinGuard guard(lock_);
  SleepInfo info;
  if (!transport_ || transport_dead_) return info;
  info.busy = transport_->Arm(barrier) || transport_->runnable();
  // Arm may send, and what it found may be the end: the next round frees what is dead.
  if (transport_dead_ || deferred_) info.busy = true;
  info.fd = transport_->fd();
  info.events = EventsOf(*transport_);
  info.deadline = NextDeadline();
  UpdateWatch();  // The sleeper may be called away before it looks again.
  return info;
}

bool SoftQueuePair::BeginVisit(Visit* visit, Deferred* deferred) {
  // Before the look at the queues: either Notify sees it and calls, or it is seen here.
  thread_away_.store(true, std::memory_order_seq_cst);
  if (ApplicationIsAtIt()) {
    visit->put_off = true;
    visit->next = Time(std::chrono::steady_clock::now()) + core_->tuning.put_off;
    return false;
  }
  thread_away_.store(false, std::memory_order_relaxed);
  bool moved = false, barrier = false;
  {
    SpinGuard guard(lock_);
    QpCounters::Add(counters_->wakeups, 1);
    bool busy = true;
    for (int i = 0; i < kRoundsPerVisit && busy; ++i) {
      busy = Round(true);
      moved |= busy;
    }
    if (transport_ && !transport_dead_) {
      transport_->TakeRearm();
      barrier = transport_->BeginArm();
    }
    Leave(deferred);
  }
  // What is alive again is polled from now on, where somebody polls.
  if (moved && cold_.exchange(false, std::memory_order_relaxed)) {
    receive_cq_->driven().Heat(number_);
    initiator_cq_->driven().Heat(number_);
  }
  return barrier;
}

void SoftQueuePair::EndVisit(bool barrier, Visit* visit, Deferred* deferred) {
  if (visit->put_off) return;
  SpinGuard guard(lock_);
  if (transport_ && !transport_dead_) {
    const bool busy = transport_->Arm(barrier) || transport_->runnable();
    visit->arm = true;
    visit->events = EventsOf(*transport_);
    thread_watches_write_ = transport_->wants_write();
    thread_watches_read_ = transport_->wants_read();
    visit->next = thread_deadline_ = busy ? Time::min() : NextDeadline();
  }
  Leave(deferred);
}

bool SoftQueuePair::ApplicationIsAtIt() {
  if (!polled_.exchange(false, std::memory_order_relaxed)) return false;
  return !receive_cq_->AboutToSleep(number_) && !initiator_cq_->AboutToSleep(number_);
}

void SoftQueuePair::CallThread() {
  if (!thread_away_.load(std::memory_order_seq_cst)) return;
  SpinGuard guard(lock_);
  if (watch_ == 0) return;
  if (Progress* progress = Progress::Get()) progress->Kick(watch_);
}

void SoftQueuePair::UpdateWatch() {
  if (watch_ == 0 || thread_away_.load(std::memory_order_relaxed) || !transport_ || transport_dead_) return;
  if (thread_deadline_ == Time::min()) return;  // It is on its way.
  const bool rearm = transport_->TakeRearm();
  const Time deadline = NextDeadline();
  if (!rearm && !transport_->runnable() && deadline >= thread_deadline_ &&
      (!transport_->wants_write() || thread_watches_write_) &&
      (!transport_->wants_read() || thread_watches_read_)) {
    return;
  }
  thread_deadline_ = Time::min();
  if (Progress* progress = Progress::Get()) progress->Kick(watch_);
}

void SoftQueuePair::Leave(Deferred* deferred) {
  if (transport_ && (transport_dead_ || (goodbye_said_ && peer_goodbye_ && transport_->finished()))) {
    CloseTransport();
  }
  if (deferred_) *deferred = std::exchange(deferred_, Deferred{});
}

void SoftQueuePair::CloseTransport() {
  if (!transport_) return;
  const int fd = transport_->fd();
  if (watch_ != 0) {
    if (Progress* progress = Progress::Get()) progress->Remove(watch_);
    watch_ = 0;
  }
  ForgetInForkedChild(fd);
  transport_.reset();
  disconnect_deadline_ = Time::max();
  SetHungry(false);
  // Whoever sleeps on the descriptor keeps the socket open, and the peer would not learn of its end.
  receive_cq_->TransportChanged(-1);
  if (initiator_cq_ != receive_cq_) initiator_cq_->TransportChanged(-1);
}

void SoftQueuePair::OnPeerGoodbye() {
  if (!live() || peer_goodbye_) return;
  peer_goodbye_ = true;
  const bool ours_first = goodbye_said_;
  if (state_ == State::kConnected) {
    state_ = State::kPeerClosed;
    deferred_.closed = std::exchange(on_peer_closed_, nullptr);
    deferred_.reason = DisconnectReason::kPeerDisconnected;
    transport_->OnFlushInitiator();
    CancelInitiator(StatusCode::kCanceled);
    if (flush_on_goodbye_) CancelReceives();
  }
  if (!ours_first) {
    goodbye_said_ = true;
    transport_->OnFlushInitiator();
    transport_->SayGoodbye();
    disconnect_deadline_ = Time(std::chrono::steady_clock::now()) + kLastWords;
  }
  if (state_ == State::kDisconnecting) FinishDisconnect(Status::Ok());
}

void SoftQueuePair::OnTransportLost(DisconnectReason reason, StatusCode first) {
  if (transport_dead_) return;
  transport_dead_ = true;
  if (state_ == State::kConnected) {
    state_ = State::kPeerClosed;
    deferred_.closed = std::exchange(on_peer_closed_, nullptr);
    deferred_.reason = reason;
    deferred_.cause = transport_->cause();
    CancelInitiator(first);
    CancelReceives();
  } else if (state_ == State::kDisconnecting) {
    CancelInitiator(first);
    // Whatever ended it, both sides are apart now, which is all that was asked for.
    FinishDisconnect(first == StatusCode::kIoTimeout
                         ? Status(StatusCode::kIoTimeout, "the peer did not answer the goodbye in time")
                         : Status::Ok());
  }
}

void SoftQueuePair::FinishDisconnect(const Status& status) {
  state_ = State::kClosed;
  CancelInitiator(StatusCode::kCanceled);
  CancelReceives();
  deferred_.status = status;
  if (disconnect_done_) deferred_.done = std::exchange(disconnect_done_, nullptr);
}

Status SoftQueuePair::Flush() {
  if (core_->forked())
    return {StatusCode::kConnectionInvalid, "the queue pair belongs to the parent process"};
  Deferred deferred;
  {
    SpinGuard guard(lock_);
    if (transport_ && !transport_dead_) {
      transport_->OnFlushInitiator();
      if (has_current_) transport_->OnFlushReceive();
    }
    CancelInitiator(StatusCode::kCanceled);
    CancelReceives();
    if (live()) Retire();
    UpdateWatch();
    Leave(&deferred);
  }
  if (deferred) deferred.Run();
  return Status::Ok();
}

void SoftQueuePair::Disconnect(Duration timeout, std::function<void(Status)> done) {
  if (core_->forked())
    return done({StatusCode::kConnectionInvalid, "the queue pair belongs to the parent process"});
  Deferred deferred;
  {
    SpinGuard guard(lock_);
    if (state_ == State::kConnected) {
      state_ = State::kDisconnecting;
      on_peer_closed_ = nullptr;
      disconnect_done_ = std::move(done);
      disconnect_deadline_ = Time(std::chrono::steady_clock::now()) + timeout;
      Retire();  // Says goodbye when nothing is outstanding.
      if (live()) Round(true);
      UpdateWatch();
    } else if (state_ == State::kPeerClosed) {
      state_ = State::kClosed;
      CancelInitiator(StatusCode::kCanceled);
      CancelReceives();
      deferred_.done = std::move(done);
    } else {
      deferred_.done = std::move(done);
      deferred_.status = Status(StatusCode::kConnectionInvalid, "the queue pair is not connected");
    }
    Leave(&deferred);
  }
  if (deferred) deferred.Run();
}

void SoftQueuePair::Drop() {
  if (core_->forked()) return;
  Deferred deferred;
  {
    SpinGuard guard(lock_);
    on_peer_closed_ = nullptr;
    // The peer must not take it for a death; a goodbye that is on its way says more.
    if (transport_ && !transport_dead_ && (state_ == State::kConnected || state_ == State::kDisconnecting)) {
      transport_->SayTerminate(EndCode::kLocal);
    }
    if (state_ == State::kDisconnecting) {
      FinishDisconnect({StatusCode::kCanceled, "the queue pair was closed"});
    } else {
      CancelInitiator(StatusCode::kCanceled);
      CancelReceives();
    }
    // Last words that are still on their way get out; anything else ends here.
    if (state_ != State::kIdle) state_ = State::kClosed;
    CloseTransport();
    // The progress thread may hold this object a moment longer than the owner of the page exists.
    counters_ = &own_counters_;
    Leave(&deferred);
  }
  if (deferred) deferred.Run();
}

void SoftQueuePair::Quiesce(std::uint32_t stag) {
  Deferred deferred;
  {
    SpinGuard guard(lock_);
    if (transport_ && !transport_dead_ && !transport_->PeerUses(stag)) EndConnection(EndCode::kProtocol);
    Leave(&deferred);
  }
  if (deferred) deferred.Run();
}

}  // namespace nd::provider::soft
