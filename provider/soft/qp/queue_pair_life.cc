// SPDX-License-Identifier: Apache-2.0
// From Attach to the end: goodbye, loss, flush, the end of a registration.
#include <algorithm>
#include <string>

#include "provider/queue_pair_rules.h"
#include "provider/soft/qp/drive/progress_thread.h"
#include "provider/soft/qp/iwarp/iwarp_transport.h"
#include "provider/soft/qp/queue_pair.h"
#include "provider/soft/qp/shm/shm_transport.h"
#include "provider/soft/transports.h"

namespace nd::provider::soft {
namespace {

// The time-out for sending our goodbye after that of the peer has arrived.
constexpr Duration kGoodbyePatience = std::chrono::seconds(1);

}  // namespace

Result<std::shared_ptr<SoftQueuePair>> SoftQueuePair::Create(const std::shared_ptr<DeviceCore>& core,
                                                             const QpOptions& options) {
  auto* receive_cq = dynamic_cast<SoftCompletionQueue*>(options.receive_cq.get());
  auto* initiator_cq = dynamic_cast<SoftCompletionQueue*>(options.initiator_cq.get());
  auto* srq = dynamic_cast<SoftSharedReceiveQueue*>(options.srq.get());
  if (core->forked()) return InParent();
  const Status bad = CheckOptions(options, core->info,
                                  {.receive_cq = receive_cq != nullptr && receive_cq->core() == core,
                                   .initiator_cq = initiator_cq != nullptr && initiator_cq->core() == core,
                                   .srq = !options.srq || (srq != nullptr && srq->core() == core)});
  if (!bad.ok()) return bad;
  std::shared_ptr<SoftQueuePair> queue_pair(new SoftQueuePair(core, options));
  queue_pair->number_ = core->AddQueuePair(queue_pair.get());
  queue_pair->receive_cq_->poll_set().Add(queue_pair.get());
  queue_pair->initiator_cq_->poll_set().Add(queue_pair.get());
  if (queue_pair->srq_) queue_pair->srq_->AttachQueuePair(queue_pair.get());
  return queue_pair;
}

SoftQueuePair::~SoftQueuePair() {
  if (core_->forked()) {
    if (transport_) transport_->Abandon();
    return;
  }
  receive_cq_->poll_set().Remove(this);
  initiator_cq_->poll_set().Remove(this);
  if (srq_) srq_->DetachQueuePair(this);
  core_->RemoveQueuePair(this);
  Drop();
}

Status SoftQueuePair::Attach(HandOff hand_off) {
  if (core_->forked()) return InParent();
  const HandOffRecord& record = hand_off.record;
  if (record.magic != HandOffRecord::kMagic || record.version != HandOffRecord::kVersion ||
      record.size != sizeof(HandOffRecord) || record.fd_count != hand_off.fds.size()) {
    return {StatusCode::kInvalidParameter, "the hand-over record is not one of this version"};
  }
  ProgressThread* progress = core_->progress_thread ? ProgressThread::Get() : nullptr;
  if (core_->progress_thread && progress == nullptr) {
    return {StatusCode::kInsufficientResources, "the progress thread cannot be started"};
  }
  Deferred deferred;
  int fd = -1;
  std::uint64_t call = 0;
  {
    BiasedGuard guard(lock_);
    if (state_ != State::kIdle) {
      return {state_ == State::kClosed ? StatusCode::kInvalidDeviceState : StatusCode::kConnectionActive,
              "the queue pair has had a connection already"};
    }
    Result<std::unique_ptr<Transport>> made(StatusCode::kNotSupported, "unknown transport");
    if (record.transport == kShared) made = MakeShmTransport(*this, hand_off);
    if (record.transport == kIwarp) made = MakeIwarpTransport(*this, hand_off);
    if (!made.ok()) return made.status();
    transport_ = std::move(made).value();
    read_outbound_ = record.read_outbound;
    extensions_ = (record.flags & kHandOffExtensions) != 0;
    flush_on_goodbye_ = (record.flags & kHandOffFlushOnGoodbye) != 0;
    JudgeEarlyRequests();
    state_ = State::kConnected;
    fd = transport_->fd();
    poll_cost_ = record.transport == kShared ? PollSet::kCostOfMemory : PollSet::kCostOfSocket;
    os::CloseInChild(fd);
    Step(&duty_, DutyEvent::kAttach);
    // Data that arrived before belongs to this queue pair.
    Round(true);
    if (progress != nullptr && !transport_dead_ && !GiveTo(*progress, &call)) {
      CloseTransport();
      state_ = State::kIdle;
      return {StatusCode::kInsufficientResources, "the kernel watches no more descriptors"};
    }
    Leave(&deferred);
  }
  if (call != 0) progress->Call(call);
  for (SoftCompletionQueue* queue : {receive_cq_.get(), initiator_cq_.get()}) {
    queue->poll_set().Heat(number_);
    queue->AddTransport(fd);
  }
  if (deferred) deferred.Run();
  return Status::Ok();
}

// The thread sleeps on, if the first round has left nothing to do and the peer wakes this side. Otherwise the
// caller wakes it after it has released the lock, on which the thread would spin.
bool SoftQueuePair::GiveTo(ProgressThread& progress, std::uint64_t* call) {
  const Interest watched{.fd = transport_->fd(), .read = true};
  watch_ = progress.Add(weak_from_this(), watched);
  if (watch_ != 0 && transport_->ArmedFromStart() && !transport_dead_ && !deferred_ &&
      Covers(watched, CurrentInterest())) {
    watched_ = watched;
    Step(&duty_, DutyEvent::kSleep);
  } else {
    *call = watch_;
  }
  return watch_ != 0;
}

Status SoftQueuePair::AllowEarlyRequests() {
  if (core_->forked()) return InParent();
  BiasedGuard guard(lock_);
  early_requests_ = true;
  return Status::Ok();
}

void SoftQueuePair::JudgeEarlyRequests() {
  for (std::uint64_t i = initiator_.next; i != initiator_.head; ++i) {
    InitiatorRequest& request = initiator_.at(i);
    if (IsAnswered(request.op) && read_outbound_ == 0) request.status = StatusCode::kInvalidDeviceRequest;
    if (IsExtension(request.op) && !extensions_) request.status = StatusCode::kNotSupported;
  }
}

Status SoftQueuePair::SetReceivePatience(Duration patience) {
  if (core_->forked()) return InParent();
  if (patience < Duration::zero()) return {StatusCode::kInvalidParameter, "the patience is negative"};
  BiasedGuard guard(lock_);
  receive_patience_ = patience;
  return Status::Ok();
}

Status SoftQueuePair::SetProtection(const Protection& protection) {
  if (core_->forked()) return InParent();
  BiasedGuard guard(lock_);
  protection_ = protection;
  sent_from_.Forget();
  received_into_.Forget();
  if (transport_) transport_->OnProtection();
  return Status::Ok();
}

void SoftQueuePair::LeaveWithMore(Deferred* deferred) {
  if (transport_ && (transport_dead_ || (goodbye_said_ && peer_goodbye_ && transport_->finished()))) {
    CloseTransport();
  }
  if (deferred_) *deferred = std::move(deferred_);
}

void SoftQueuePair::CloseTransport() {
  if (!transport_) return;
  const int fd = transport_->fd();
  quiet_.stamp = nullptr;
  Step(&duty_, DutyEvent::kDetach);
  put_off_.store(false, std::memory_order_relaxed);
  if (watch_ != 0) {
    if (ProgressThread* progress = ProgressThread::Get()) {
      progress->Remove(watch_);
      if (transport_dead_) progress->FreeLater(transport_->TakeMemory());
    }
    watch_ = 0;
  }
  receive_cq_->RemoveTransport(fd);
  if (initiator_cq_ != receive_cq_) initiator_cq_->RemoveTransport(fd);
  os::ForgetInChild(fd);
  transport_.reset();
  disconnect_deadline_ = Time::max();
  SetStarved(false);
  // A thread that sleeps on the descriptor keeps the socket open, so the peer would not notice the end.
  WakeSleepers();
}

void SoftQueuePair::OnPeerGoodbye() {
  if (!live() || peer_goodbye_) return;
  peer_goodbye_ = true;
  const bool ours_first = goodbye_said_;
  if (state_ == State::kConnected) {
    state_ = State::kPeerClosed;
    deferred_.work().closed = std::exchange(on_peer_closed_, nullptr);
    deferred_.work().reason = DisconnectReason::kPeerDisconnected;
    transport_->OnFlushInitiator();
    CancelInitiator(StatusCode::kCanceled);
    if (flush_on_goodbye_) CancelReceives();
  }
  if (!ours_first) {
    goodbye_said_ = true;
    transport_->OnFlushInitiator();
    transport_->SayGoodbye();
    disconnect_deadline_ = Time(std::chrono::steady_clock::now()) + kGoodbyePatience;
  }
  if (state_ == State::kDisconnecting) FinishDisconnect(Status::Ok());
}

void SoftQueuePair::OnTransportLost(DisconnectReason reason, StatusCode first) {
  if (transport_dead_) return;
  transport_dead_ = true;
  if (state_ == State::kConnected) {
    state_ = State::kPeerClosed;
    deferred_.work().closed = std::exchange(on_peer_closed_, nullptr);
    deferred_.work().reason = reason;
    deferred_.work().cause = transport_->cause();
    CancelInitiator(first);
    CancelReceives();
  } else if (state_ == State::kDisconnecting) {
    CancelInitiator(first);
    // Disconnect has reached its goal, whatever ended the connection.
    FinishDisconnect(first == StatusCode::kIoTimeout
                         ? Status(StatusCode::kIoTimeout, "the peer did not answer the goodbye in time")
                         : Status::Ok());
  }
}

void SoftQueuePair::FinishDisconnect(const Status& status) {
  state_ = State::kClosed;
  CancelInitiator(StatusCode::kCanceled);
  CancelReceives();
  if (!disconnect_done_) return;
  deferred_.work().status = status;
  deferred_.work().done = std::exchange(disconnect_done_, nullptr);
}

Status SoftQueuePair::Flush() {
  if (core_->forked()) return InParent();
  Deferred deferred;
  {
    BiasedGuard guard(lock_);
    if (transport_ && !transport_dead_) {
      transport_->OnFlushInitiator();
      if (has_current_) transport_->OnFlushReceive();
    }
    CancelInitiator(StatusCode::kCanceled);
    CancelReceives();
    if (live()) Retire();
    ReportUndone();
    Leave(&deferred);
  }
  if (deferred) deferred.Run();
  return Status::Ok();
}

void SoftQueuePair::Disconnect(Duration timeout, std::function<void(Status)> done) {
  if (core_->forked()) return done(InParent());
  Deferred deferred;
  {
    BiasedGuard guard(lock_);
    if (state_ == State::kConnected) {
      state_ = State::kDisconnecting;
      on_peer_closed_ = nullptr;
      disconnect_done_ = std::move(done);
      disconnect_deadline_ = Time(std::chrono::steady_clock::now()) + timeout;
      Retire();  // Sends the goodbye when no request is outstanding.
      if (live()) Round(true);
      ReportUndone();
    } else if (state_ == State::kPeerClosed) {
      state_ = State::kClosed;
      CancelInitiator(StatusCode::kCanceled);
      CancelReceives();
      deferred_.work().done = std::move(done);
    } else {
      deferred_.work().done = std::move(done);
      deferred_.work().status = Status(StatusCode::kConnectionInvalid, "the queue pair is not connected");
    }
    Leave(&deferred);
  }
  if (deferred) deferred.Run();
}

void SoftQueuePair::Drop() {
  if (core_->forked()) return;
  Deferred deferred;
  {
    BiasedGuard guard(lock_);
    on_peer_closed_ = nullptr;
    // The peer must not take it for a death. A goodbye on its way is better.
    if (transport_ && !transport_dead_ && (state_ == State::kConnected || state_ == State::kDisconnecting)) {
      transport_->SayTerminate(EndCode::kLocal);
    }
    if (state_ == State::kDisconnecting) {
      FinishDisconnect({StatusCode::kCanceled, "the queue pair was closed"});
    } else {
      CancelInitiator(StatusCode::kCanceled);
      CancelReceives();
    }
    // A Terminate or goodbye in progress is still sent; everything else ends here.
    if (state_ != State::kIdle) state_ = State::kClosed;
    CloseTransport();
    // The progress thread may hold this object a moment longer than the page exists.
    counters_ = &own_counters_;
    Leave(&deferred);
  }
  if (deferred) deferred.Run();
}

bool SoftQueuePair::PeerTouches(std::uint32_t stag) {
  BiasedGuard guard(lock_);
  return transport_ && !transport_dead_ && transport_->PeerTouches(stag);
}

bool SoftQueuePair::PeerLives() {
  BiasedGuard guard(lock_);
  return transport_ && !transport_dead_ && transport_->PeerLives();
}

void SoftQueuePair::EndIfPeerTouches(std::uint32_t stag, Deferred* deferred) {
  BiasedGuard guard(lock_);
  if (transport_ && !transport_dead_ && transport_->PeerTouches(stag)) EndConnection(EndCode::kProtocol);
  Leave(deferred);
}

}  // namespace nd::provider::soft
