// SPDX-License-Identifier: Apache-2.0
// Starts requests, orders completions and handles failures.
#include "provider/soft/qp/queue_pair.h"

#include <algorithm>

namespace nd::provider::soft {
namespace {

void FailByOwnMemory(InitiatorRequest& request) {
  request.status = StatusCode::kAccessViolation;
  request.own_memory = true;
}

}  // namespace

SoftQueuePair::SoftQueuePair(std::shared_ptr<DeviceCore> core, const QpOptions& options)
    : core_(std::move(core)),
      regions_(core_->regions->entries()),
      region_changes_(core_->regions->changes()),
      receive_cq_(std::static_pointer_cast<SoftCompletionQueue>(options.receive_cq)),
      initiator_cq_(std::static_pointer_cast<SoftCompletionQueue>(options.initiator_cq)),
      srq_(std::static_pointer_cast<SoftSharedReceiveQueue>(options.srq)),
      context_(options.context),
      max_receive_sge_(options.max_receive_sge),
      max_initiator_sge_(options.max_initiator_sge),
      inline_size_(options.inline_size),
      max_length_(core_->info.max_transfer_length),
      counters_(options.counters),
      receive_patience_(core_->tuning.rnr_timeout),
      initiator_(options.initiator_depth),
      receives_(srq_ ? 1 : options.receive_depth),
      on_peer_closed_(options.on_peer_closed) {
  if (counters_ == nullptr) counters_ = &own_counters_;
  if (inline_size_ != 0) {
    inline_storage_ = std::make_unique<std::byte[]>(initiator_.slots() * inline_size_);
    for (std::size_t i = 0; i < initiator_.slots(); ++i) {
      initiator_.at(i).inline_data = inline_storage_.get() + i * inline_size_;
    }
  }
}

std::byte* SoftQueuePair::RemoteTarget(std::uint32_t stag, std::uint64_t address, std::uint64_t length,
                                       std::uint32_t access, Refusal* why) const {
  static std::byte nothing{};
  *why = Refusal::kNone;
  if (length == 0) return &nothing;
  const auto region = core_->regions->Lookup(stag);
  *why = Refusal::kInvalidStag;
  if (!region) return nullptr;
  *why = Refusal::kOtherQueuePair;
  if (region->queue_pair != 0 && region->queue_pair != number_) return nullptr;
  if (region->domain != protection_.domain) return nullptr;
  *why = Refusal::kRights;
  if ((region->access & protection_.remote_access & access) != access) return nullptr;
  *why = Refusal::kBounds;
  if (!region->Contains(address, length)) return nullptr;
  *why = Refusal::kNone;
  return reinterpret_cast<std::byte*>(static_cast<std::uintptr_t>(address + region->shift));
}

InitiatorRequest* SoftQueuePair::NextOfAnyKind() {
  while (!stopped_ && initiator_.next != initiator_.head) {
    InitiatorRequest& request = initiator_.at(initiator_.next);
    if ((request.flags & kOpReadFence) != 0 && reads_started_ != 0) return nullptr;
    if (request.op == Op::kBind || request.op == Op::kInvalidate) {
      request.started = true;
      ++initiator_.next;
      RunLocal(request);
      continue;
    }
    const std::uint32_t access = IsAnswered(request.op) ? kAllowLocalWrite | kRdmaReadSink : 0u;
    bool good = request.status == StatusCode::kSuccess;
    for (std::uint32_t i = 0; i < request.list.count && !request.is_inline; ++i) {
      good = good && CheckLocal(request.list.sges[i], access);
    }
    if (good) return &request;
    request.started = true;
    ++initiator_.next;
    stopped_ = true;
    if (request.status == StatusCode::kSuccess) FailByOwnMemory(request);
    request.done = true;
    Retire();
    return nullptr;
  }
  return nullptr;
}

void SoftQueuePair::RunLocal(InitiatorRequest& request) {
  request.done = true;
  if (request.bind || !request.window) {
    if (!(request.bind ? RunVerbsBind(request) : InvalidateByPeer(request.token))) {
      request.status = StatusCode::kAccessViolation;
      stopped_ = true;
    }
  } else if (request.op == Op::kBind) {
    // The new binding is valid since its post; the former ones end here.
    for (std::uint32_t stag : request.window->BindingsExcept(request.token)) EndWindow(*request.window, stag);
  } else {
    EndWindow(*request.window, request.token);
  }
  if (live()) Retire();
}

bool SoftQueuePair::RunVerbsBind(InitiatorRequest& request) {
  SoftWindow& window = *request.window;
  const std::unique_ptr<VerbsBind> bind = std::move(request.bind);
  // The last owner of the region must not end here, see Deferred.
  if (bind->region) deferred_.work().released.push_back(bind->region);
  if (window.kind() == WindowKind::kVerbsType1) {
    for (std::uint32_t stag : window.BindingsExcept(0)) EndWindow(window, stag);
    if (bind->binding.length == 0) return true;
  }
  if (!bind->region || !window.OpenAs(bind->region, bind->binding, number_, protection_.domain).ok()) {
    return false;
  }
  if (window.kind() == WindowKind::kVerbsType1) return true;  // A peer cannot invalidate it.
  std::erase_if(windows_, [](const auto& bound) { return bound.second.expired(); });
  windows_.emplace_back(bind->binding.token, window.weak_from_this());
  return true;
}

bool SoftQueuePair::EndWindow(SoftWindow& window, std::uint32_t stag) {
  std::shared_ptr<SoftRegion> region = window.Shut(stag);
  if (!region) return false;
  deferred_.work().released.push_back(std::move(region));
  std::erase_if(windows_, [stag](const auto& bound) { return bound.first == stag; });
  if (!transport_ || transport_dead_) return true;
  for (const Time give_up = Time(std::chrono::steady_clock::now()) + kRevokePatience;
       transport_->PeerTouches(stag);) {
    if (Time(std::chrono::steady_clock::now()) > give_up) {
      EndConnection(EndCode::kProtocol);
      break;
    }
    sched_yield();
  }
  return true;
}

bool SoftQueuePair::CheckAndLearn(LocalGrant* grant, const Sge& sge, std::uint32_t any_of_access,
                                  std::uint64_t changes) {
  if (!CheckLocal(sge, any_of_access)) return false;
  if (sge.length != 0) grant->Learn(regions_, sge.local_token, changes);
  return true;
}

bool SoftQueuePair::LearnFault() {
  const std::uint32_t faults = os::MemoryFaults();
  if (!memory_gone_) memory_gone_ = os::TakeMemoryFault();
  if (!memory_gone_) faults_seen_ = faults;  // Another thread, at another queue pair.
  return memory_gone_;
}

void SoftQueuePair::WithholdRequest(std::uint64_t position) {
  if (stopped_) return;  // An earlier one failed so in this round.
  stopped_ = true;
  FailByOwnMemory(initiator_.at(position));
  initiator_.at(position).done = true;
}

void SoftQueuePair::EndForGoneMemory() {
  if (live()) EndConnection(EndCode::kLocal);
  // Not earlier: the end must not send the bytes either.
  memory_gone_ = false;
  faults_seen_ = os::MemoryFaults();
}

void SoftQueuePair::CompleteInitiator(InitiatorRequest& request, StatusCode status) {
  request.done = true;
  request.status = status;
  if (status == StatusCode::kSuccess && MemoryGone()) FailByOwnMemory(request);
  if (IsAnswered(request.op)) --reads_started_;
  if (request.status != StatusCode::kSuccess) stopped_ = true;
  Retire();
}

void SoftQueuePair::ConfirmBefore(std::uint64_t position) {
  for (std::uint64_t i = initiator_.tail; i < position; ++i) {
    InitiatorRequest& request = initiator_.at(i);
    if (request.started && !IsAnswered(request.op)) request.done = true;
  }
  Retire();
}

void SoftQueuePair::Report(const InitiatorRequest& request, StatusCode status) {
  if (status == StatusCode::kSuccess && (request.flags & kOpSilentSuccess) != 0) return;
  if (status != StatusCode::kSuccess) QpCounters::Add(counters_->errors, 1);
  const std::uint32_t bytes = status == StatusCode::kSuccess ? request.list.length : 0;
  const auto flags = static_cast<std::uint8_t>((request.no_receive ? kCompletionNoReceive : 0) |
                                               (request.own_memory ? kCompletionOwnMemory : 0));
  Complete(*initiator_cq_, TypeOf(request.op), request.context, status, bytes, false, flags);
}

void SoftQueuePair::Retire() {
  if (retiring_) return;
  retiring_ = true;
  bool failed = false;
  while (!failed && !initiator_.empty() && initiator_.at(initiator_.tail).done) {
    InitiatorRequest& request = initiator_.at(initiator_.tail);
    failed = request.status != StatusCode::kSuccess;
    Report(request, request.status);
    if (request.op >= Op::kBind && request.window) {
      deferred_.work().released.push_back(std::move(request.window));
    }
    ++initiator_.tail;
  }
  retiring_ = false;
  if (failed && live()) {
    EndConnection(EndCode::kLocal);
  } else if (state_ == State::kDisconnecting && initiator_.empty() && !goodbye_said_ && !transport_dead_) {
    goodbye_said_ = true;
    transport_->SayGoodbye();
  }
}

void SoftQueuePair::CancelInitiator(StatusCode first) {
  for (; initiator_.tail != initiator_.head; ++initiator_.tail) {
    InitiatorRequest& request = initiator_.at(initiator_.tail);
    StatusCode status = request.status;
    if (!request.done) {
      status = std::exchange(first, StatusCode::kCanceled);
      // A binding that was not executed was valid since its post; no peer knows it.
      if (request.op == Op::kBind && !request.bind) EndWindow(*request.window, request.token);
    }
    Report(request, status);
    if (request.bind && request.bind->region)
      deferred_.work().released.push_back(std::move(request.bind->region));
    request.bind.reset();
    if (request.window) deferred_.work().released.push_back(std::move(request.window));
  }
  initiator_.next = initiator_.head;
  reads_started_ = 0;
  stopped_ = false;
}

void SoftQueuePair::SetStarved(bool starved) {
  if (starved_.load(std::memory_order_relaxed) == starved) return;
  starved_.store(starved, std::memory_order_seq_cst);
  if (srq_) starved ? srq_->AddStarved() : srq_->RemoveStarved();
}

ReceiveRequest* SoftQueuePair::CurrentReceive() {
  if (has_current_) return &current_;
  if (srq_) {
    has_current_ = srq_->Take(&current_, &deferred_);
    if (!has_current_) {
      SetStarved(true);
      // A receive may have been posted before the starved state was visible.
      has_current_ = srq_->Take(&current_, &deferred_);
    }
  } else if (!receives_.empty()) {
    ReceiveRequest& oldest = receives_.at(receives_.tail);
    current_.context = oldest.context;
    current_.list.Assign({oldest.list.sges.data(), oldest.list.count}, oldest.list.length);
    has_current_ = true;
  } else {
    SetStarved(true);
  }
  if (!has_current_) return nullptr;
  SetStarved(false);
  return &current_;
}

void SoftQueuePair::CompleteReceive(StatusCode status, std::uint32_t bytes, bool solicited,
                                    std::uint8_t flags, std::uint32_t immediate) {
  if (!has_current_) return;
  if (status == StatusCode::kSuccess && MemoryGone()) status = StatusCode::kAccessViolation;
  has_current_ = false;
  if (!srq_) ++receives_.tail;
  if ((flags & kCompletionOfWrite) != 0) {
    // The Write has counted itself.
  } else if (status == StatusCode::kSuccess) {
    QpCounters::Add(counters_->rx_sends, 1);
    QpCounters::Add(counters_->rx_bytes, bytes);
  } else {
    QpCounters::Add(counters_->errors, 1);
  }
  Complete(*receive_cq_, RequestType::kReceive, current_.context, status, bytes, solicited, flags, immediate);
}

void SoftQueuePair::CancelReceives() {
  SetStarved(false);
  if (has_current_) CompleteReceive(StatusCode::kCanceled, 0, false);
  if (srq_) return;
  while (!receives_.empty()) {
    QpCounters::Add(counters_->errors, 1);
    void* const context = receives_.at(receives_.tail).context;
    Complete(*receive_cq_, RequestType::kReceive, context, StatusCode::kCanceled, 0, false);
    ++receives_.tail;
  }
}

bool SoftQueuePair::InvalidateByPeer(std::uint32_t stag) {
  auto found = std::find_if(windows_.begin(), windows_.end(),
                            [stag](const auto& bound) { return bound.first == stag; });
  if (found == windows_.end()) return false;
  std::shared_ptr<SoftWindow> window = found->second.lock();
  if (!window || !EndWindow(*window, stag)) return false;
  deferred_.work().released.push_back(std::move(window));
  return true;
}

void SoftQueuePair::FailAt(std::uint64_t position, EndCode why) {
  for (std::uint64_t i = initiator_.tail; i < initiator_.head && i <= position; ++i) {
    InitiatorRequest& request = initiator_.at(i);
    if (request.done || !request.started) continue;
    if (i == position) {
      request.status = StatusOfFailedRequest(why);
      request.no_receive = why == EndCode::kNoReceive;
      request.done = true;
    } else if (!IsAnswered(request.op)) {
      request.done = true;
    }
  }
  OnTransportLost(DisconnectReason::kUnknown);
}

void SoftQueuePair::EndConnection(EndCode code, DisconnectReason reason) {
  if (transport_dead_ || !transport_) return;
  transport_->SayTerminate(code);
  OnTransportLost(reason);
}

}  // namespace nd::provider::soft
