// SPDX-License-Identifier: Apache-2.0
// Posts requests that provider/queue_pair_rules.h accepts.
#include <algorithm>
#include <cstring>

#include "provider/queue_pair_rules.h"
#include "provider/soft/qp/queue_pair.h"

namespace nd::provider::soft {
namespace {

constexpr std::uint32_t kCommonFlags = kOpSilentSuccess | kOpReadFence;

}  // namespace

Status SoftQueuePair::CheckPostable(RequestType type) const {
  const bool connected = state_ == State::kConnected || state_ == State::kPeerClosed || early();
  return provider::CheckPostable(type, connected, initiator_.full(), early() ? 1 : read_outbound_);
}

void SoftQueuePair::AfterPost() {
  if (state_ == State::kConnected) {
    StartPosted();
  } else if (state_ == State::kPeerClosed) {
    CancelInitiator(StatusCode::kCanceled);
  }
}

void SoftQueuePair::CopyInline(InitiatorRequest& request, std::span<const Sge> sges, std::uint32_t length) {
  std::uint32_t at = 0;
  for (const Sge& sge : sges) {
    if (sge.length != 0) std::memcpy(request.inline_data + at, sge.address, sge.length);
    at += sge.length;
  }
  request.list.count = length == 0 ? 0 : 1;
  request.list.length = length;
  request.list.sges[0] = Sge{request.inline_data, length, 0};
}

Status SoftQueuePair::Post(Op op, void* context, std::span<const Sge> sges, std::uint32_t flags,
                           std::uint64_t remote_address, std::uint32_t remote_token,
                           const Operands* operands) {
  if (core_->forked()) [[unlikely]]
    return InParent();
  std::uint32_t length = 0;
  if (Status status = CheckSges(sges, max_initiator_sge_, max_length_, &length); !status.ok()) {
    return status;
  }
  const bool is_inline = (flags & kOpInline) != 0;
  if (is_inline) {
    if (Status status = CheckInline(sges, length, inline_size_); !status.ok()) return status;
  }
  Deferred deferred;
  {
    BiasedGuard guard(lock_);
    const bool postable = state_ == State::kConnected && !initiator_.full() && !IsAnswered(op);
    if (!postable) {
      Status status = CheckPostable(IsAnswered(op) ? RequestType::kRead : RequestType::kSend);
      if (!status.ok()) return status;
    }
    InitiatorRequest& request = initiator_.at(initiator_.head);
    if (operands != nullptr) {
      if (!extensions_ && !early()) return NoExtensions();
      request.operands = *operands;
    }
    request.Begin(op, context, flags, remote_address, remote_token);
    request.is_inline = is_inline;
    if (is_inline) {
      CopyInline(request, sges, length);
    } else {
      request.list.Assign(sges, length);
    }
    ++initiator_.head;
    AfterPost();
    Leave(&deferred);
  }
  if (deferred) [[unlikely]]
    deferred.Run();
  return Status::Ok();
}

[[gnu::always_inline]] inline bool SoftQueuePair::CopyOne(Op op, void* context, const Sge& sge,
                                                          std::uint32_t flags, std::uint64_t remote_address,
                                                          std::uint32_t remote_token) {
  const std::uint32_t access = IsAnswered(op) ? kAllowLocalWrite | kRdmaReadSink : 0u;
  if (!initiator_.empty() || stopped_ || (flags & kOpReadFence) != 0 ||
      !CheckAgain(&sent_from_, sge, access) ||
      !transport_->CopyAtOnce({op, sge, remote_token, remote_address})) {
    return false;
  }
  if (MemoryGone()) [[unlikely]] {
    CompleteWithGoneMemory(op, context, sge, flags);
    return true;
  }
  CountStarted(op, sge.length);
  if (IsAnswered(op)) CountCopiedAnswer(sge.length);
  if ((flags & kOpSilentSuccess) == 0)
    Complete(*initiator_cq_, TypeOf(op), context, StatusCode::kSuccess, sge.length, false);
  return true;
}

void SoftQueuePair::CompleteWithGoneMemory(Op op, void* context, const Sge& sge, std::uint32_t flags) {
  InitiatorRequest& request = initiator_.at(initiator_.head++);
  request.Begin(op, context, flags, 0, 0);
  request.list.AssignOne(sge);
  Started(request, op);
  CompleteInitiator(request);
  EndIfMemoryGone();
}

[[gnu::always_inline]] inline bool SoftQueuePair::PostOne(Op op, void* context, std::span<const Sge> sges,
                                                          std::uint32_t flags, std::uint32_t common,
                                                          std::uint64_t remote_address,
                                                          std::uint32_t remote_token) {
  if (sges.size() != 1 || max_initiator_sge_ == 0 || (flags & ~common) != 0 || sges[0].length > max_length_ ||
      core_->forked()) [[unlikely]]
    return false;
  Deferred deferred;
  {
    BiasedGuard guard(lock_);
    if (state_ != State::kConnected || initiator_.full() || (IsAnswered(op) && read_outbound_ == 0))
        [[unlikely]]
      return false;
    if (op != Op::kSend && CopyOne(op, context, sges[0], flags, remote_address, remote_token)) {
      ReportUndone();
      EndRest();
    } else {
      InitiatorRequest& request = initiator_.at(initiator_.head);
      request.Begin(op, context, flags, remote_address, remote_token);
      request.list.AssignOne(sges[0]);
      ++initiator_.head;
      StartPosted();
    }
    LeaveQuiet(&deferred);
  }
  if (deferred) [[unlikely]]
    deferred.Run();
  return true;
}

Status SoftQueuePair::Send(void* context, std::span<const Sge> sges, std::uint32_t flags) {
  if (PostOne(Op::kSend, context, sges, flags, kCommonFlags | kOpSendAndSolicit, 0, 0)) [[likely]]
    return Status::Ok();
  if (Status status = CheckFlags(RequestType::kSend, flags); !status.ok()) return status;
  return Post(Op::kSend, context, sges, flags, 0, 0);
}

Status SoftQueuePair::SendAndInvalidate(void* context, std::span<const Sge> sges, std::uint32_t flags,
                                        std::uint32_t remote_token) {
  if (Status status = CheckFlags(RequestType::kSend, flags); !status.ok()) return status;
  return Post(Op::kSendInvalidate, context, sges, flags, 0, remote_token);
}

Status SoftQueuePair::Write(void* context, std::span<const Sge> sges, std::uint64_t remote_address,
                            std::uint32_t remote_token, std::uint32_t flags) {
  if (PostOne(Op::kWrite, context, sges, flags, kCommonFlags, remote_address, remote_token)) [[likely]]
    return Status::Ok();
  if (Status status = CheckFlags(RequestType::kWrite, flags); !status.ok()) return status;
  return Post(Op::kWrite, context, sges, flags, remote_address, remote_token);
}

Status SoftQueuePair::Read(void* context, std::span<const Sge> sges, std::uint64_t remote_address,
                           std::uint32_t remote_token, std::uint32_t flags) {
  if (PostOne(Op::kRead, context, sges, flags, kCommonFlags, remote_address, remote_token)) [[likely]]
    return Status::Ok();
  if (Status status = CheckFlags(RequestType::kRead, flags); !status.ok()) return status;
  return Post(Op::kRead, context, sges, flags, remote_address, remote_token);
}

Status SoftQueuePair::SendWithImmediate(void* context, std::span<const Sge> sges, std::uint32_t immediate,
                                        std::uint32_t flags) {
  if (Status status = CheckFlags(RequestType::kSend, flags); !status.ok()) return status;
  const Operands operands{.immediate = immediate};
  return Post(Op::kSendImmediate, context, sges, flags, 0, 0, &operands);
}

Status SoftQueuePair::WriteWithImmediate(void* context, std::span<const Sge> sges,
                                         std::uint64_t remote_address, std::uint32_t remote_token,
                                         std::uint32_t immediate, std::uint32_t flags) {
  // The peer has a receive to wake for.
  if (Status status = CheckFlags(RequestType::kWrite, flags & ~kOpSendAndSolicit); !status.ok())
    return status;
  const Operands operands{.immediate = immediate};
  return Post(Op::kWriteImmediate, context, sges, flags, remote_address, remote_token, &operands);
}

Status SoftQueuePair::FetchAdd(void* context, const Sge& result, std::uint64_t remote_address,
                               std::uint32_t remote_token, std::uint64_t add, std::uint32_t flags) {
  return PostAtomic(Op::kFetchAdd, context, result, remote_address, remote_token, flags, {.value = add});
}

Status SoftQueuePair::CompareSwap(void* context, const Sge& result, std::uint64_t remote_address,
                                  std::uint32_t remote_token, std::uint64_t compare, std::uint64_t swap,
                                  std::uint32_t flags) {
  return PostAtomic(Op::kCompareSwap, context, result, remote_address, remote_token, flags,
                    {.value = swap, .compare = compare});
}

Status SoftQueuePair::PostAtomic(Op op, void* context, const Sge& result, std::uint64_t remote_address,
                                 std::uint32_t remote_token, std::uint32_t flags, const Operands& operands) {
  if (Status status = CheckFlags(TypeOf(op), flags); !status.ok()) return status;
  if (Status status = CheckAtomic(result, remote_address); !status.ok()) return status;
  return Post(op, context, {&result, 1}, flags, remote_address, remote_token, &operands);
}

Status SoftQueuePair::PostLocal(Op op, void* context, std::shared_ptr<SoftWindow> window, std::uint32_t token,
                                std::uint32_t flags, std::unique_ptr<VerbsBind> bind) {
  InitiatorRequest& request = initiator_.at(initiator_.head);
  request.bind = std::move(bind);
  request.Begin(op, context, flags, 0, token);
  request.list.count = request.list.length = 0;
  request.window = std::move(window);
  ++initiator_.head;
  AfterPost();
  return Status::Ok();
}

Status SoftQueuePair::BindWindow(void* context, MemoryRegion& region, MemoryWindow& window, void* address,
                                 std::size_t length, std::uint32_t flags) {
  if (Status bad = CheckFlags(RequestType::kBind, flags); !bad.ok()) return bad;
  if (core_->forked()) return InParent();
  auto* soft_region = dynamic_cast<SoftRegion*>(&region);
  auto* soft_window = dynamic_cast<SoftWindow*>(&window);
  if (soft_region == nullptr || soft_region->core() != core_) {
    return OtherAdaptersRegion();
  }
  if (soft_window == nullptr || soft_window->core() != core_) {
    return OtherAdaptersWindow(StatusCode::kInvalidParameter3);
  }
  std::uint32_t access = 0;
  if ((flags & kOpAllowRead) != 0) access |= kAllowRemoteRead;
  if ((flags & kOpAllowWrite) != 0) access |= kAllowRemoteWrite;
  Deferred deferred;
  Status status;
  {
    BiasedGuard guard(lock_);
    status = CheckPostable(RequestType::kBind);
    if (!status.ok()) return status;
    // Valid from now on, so that the next request can send remote_token().
    auto stag = soft_window->Open(soft_region->shared_from_this(), address, length, access, number_);
    if (!stag.ok()) return stag.status();
    std::erase_if(windows_, [](const auto& bound) { return bound.second.expired(); });
    windows_.emplace_back(*stag, soft_window->weak_from_this());
    status = PostLocal(Op::kBind, context, soft_window->shared_from_this(), *stag, flags);
    Leave(&deferred);
  }
  if (deferred) deferred.Run();
  return status;
}

Status SoftQueuePair::Invalidate(void* context, MemoryWindow& window, std::uint32_t flags) {
  if (Status bad = CheckFlags(RequestType::kInvalidate, flags); !bad.ok()) return bad;
  if (core_->forked()) return InParent();
  auto* soft_window = dynamic_cast<SoftWindow*>(&window);
  if (soft_window == nullptr || soft_window->core() != core_) {
    return OtherAdaptersWindow(StatusCode::kInvalidParameter2);
  }
  return PostGuarded(Op::kInvalidate, context, soft_window->shared_from_this(), soft_window->remote_token(),
                     flags, nullptr);
}

Status SoftQueuePair::BindVerbsWindow(void* context, MemoryRegion* region, MemoryWindow& window,
                                      const WindowBinding& binding, std::uint32_t flags) {
  if (Status bad = CheckFlags(RequestType::kInvalidate, flags); !bad.ok()) return bad;
  if (core_->forked()) return InParent();
  auto* soft_region = dynamic_cast<SoftRegion*>(region);
  auto* soft_window = dynamic_cast<SoftWindow*>(&window);
  if (region != nullptr && (soft_region == nullptr || soft_region->core() != core_)) {
    return OtherAdaptersRegion();
  }
  if (soft_window == nullptr || soft_window->core() != core_ ||
      soft_window->kind() == WindowKind::kNetworkDirect) {
    return OtherAdaptersWindow(StatusCode::kInvalidParameter3);
  }
  auto bind = std::make_unique<VerbsBind>();
  if (soft_region != nullptr) bind->region = soft_region->shared_from_this();
  bind->binding = binding;
  return PostGuarded(Op::kBind, context, soft_window->shared_from_this(), binding.token, flags,
                     std::move(bind));
}

Status SoftQueuePair::InvalidateToken(void* context, std::uint32_t token, std::uint32_t flags) {
  if (Status bad = CheckFlags(RequestType::kInvalidate, flags); !bad.ok()) return bad;
  if (core_->forked()) return InParent();
  return PostGuarded(Op::kInvalidate, context, nullptr, token, flags, nullptr);
}

Status SoftQueuePair::PostGuarded(Op op, void* context, std::shared_ptr<SoftWindow> window,
                                  std::uint32_t token, std::uint32_t flags, std::unique_ptr<VerbsBind> bind) {
  Deferred deferred;
  Status status;
  {
    BiasedGuard guard(lock_);
    status = CheckPostable(TypeOf(op));
    if (!status.ok()) return status;
    status = PostLocal(op, context, std::move(window), token, flags, std::move(bind));
    Leave(&deferred);
  }
  if (deferred) deferred.Run();
  return status;
}

// The common case. Returns false in any other case, and for a receive that Receive() refuses.
[[gnu::always_inline]] inline bool SoftQueuePair::ReceiveOne(void* context, std::span<const Sge> sges) {
  if (sges.size() != 1 || max_receive_sge_ == 0 || sges[0].length > max_length_ || srq_ || core_->forked())
      [[unlikely]]
    return false;
  BiasedGuard guard(lock_);
  if (receives_.full() || state_ != State::kConnected || starved()) return false;
  ReceiveRequest& request = receives_.at(receives_.head);
  request.context = context;
  request.list.AssignOne(sges[0]);
  ++receives_.head;
  return true;
}

Status SoftQueuePair::Receive(void* context, std::span<const Sge> sges) {
  if (ReceiveOne(context, sges)) [[likely]]
    return Status::Ok();
  if (core_->forked()) return InParent();
  if (srq_) return ReceivesAreShared();
  std::uint32_t length = 0;
  if (Status status = CheckSges(sges, max_receive_sge_, max_length_, &length); !status.ok()) {
    return status;
  }
  Deferred deferred;
  {
    BiasedGuard guard(lock_);
    if (receives_.full()) return ReceiveQueueFull();
    ReceiveRequest& request = receives_.at(receives_.head);
    request.context = context;
    request.list.Assign(sges, length);
    ++receives_.head;
    if (state_ == State::kConnected && !starved()) return Status::Ok();
    if (state_ == State::kClosed || (state_ == State::kPeerClosed && !transport_ && !peer_goodbye_)) {
      CancelReceives();  // No message can arrive any more.
    } else if (starved() && live()) {
      transport_->OnReceivePosted();
      Round(false);
      ReportUndone();
    }
    Leave(&deferred);
  }
  if (deferred) deferred.Run();
  return Status::Ok();
}

}  // namespace nd::provider::soft
