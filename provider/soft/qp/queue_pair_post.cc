// SPDX-License-Identifier: Apache-2.0
// Checks posted requests; the statuses are those of behaviour a.8.
#include <algorithm>
#include <cstring>

#include "provider/soft/qp/queue_pair.h"

namespace nd::provider::soft {
namespace {

constexpr std::uint32_t kSendFlags = kOpSilentSuccess | kOpReadFence | kOpSendAndSolicit | kOpInline;
constexpr std::uint32_t kWriteFlags = kOpSilentSuccess | kOpReadFence | kOpInline;
constexpr std::uint32_t kReadFlags = kOpSilentSuccess | kOpReadFence;
constexpr std::uint32_t kBindFlags = kOpSilentSuccess | kOpReadFence | kOpAllowRead | kOpAllowWrite;

Status BadFlags(StatusCode code) {
  return {code, "a flag is set that this request does not have"};
}
Status InParent() {
  return {StatusCode::kConnectionInvalid, "the queue pair belongs to the parent process"};
}

}  // namespace

Status CheckSges(std::span<const Sge> sges, std::uint32_t max_sge, std::uint32_t max_bytes,
                 std::uint32_t* length) {
  if (sges.size() > max_sge) {
    return {StatusCode::kDataOverrun, "more scatter/gather elements than the queue was made for"};
  }
  std::uint64_t total = 0;
  for (const Sge& sge : sges) total += sge.length;
  if (total > max_bytes) {
    return {StatusCode::kBufferOverflow, "more bytes than the adapter's max_transfer_length"};
  }
  *length = static_cast<std::uint32_t>(total);
  return Status::Ok();
}

Status SoftQueuePair::CheckPostable() {
  if (state_ != State::kConnected && state_ != State::kPeerClosed) {
    return {StatusCode::kConnectionInvalid, "the queue pair is not connected"};
  }
  if (initiator_.full()) return {StatusCode::kNoMoreEntries, "the initiator queue is full"};
  return Status::Ok();
}

void SoftQueuePair::AfterPost() {
  if (state_ == State::kConnected) {
    transport_->Transmit();
    ReportUndone();
  } else if (state_ == State::kPeerClosed) {
    CancelInitiator(StatusCode::kCanceled);
  }
}

Status SoftQueuePair::Post(Op op, void* context, std::span<const Sge> sges, std::uint32_t flags,
                           std::uint64_t remote_address, std::uint32_t remote_token) {
  if (core_->forked()) [[unlikely]]
    return InParent();
  std::uint32_t length = 0;
  if (Status status = CheckSges(sges, max_initiator_sge_, core_->info.max_transfer_length, &length);
      !status.ok()) {
    return status;
  }
  const bool is_inline = (flags & kOpInline) != 0;
  if (is_inline && length > inline_size_) {
    return {StatusCode::kBufferOverflow, "more inline bytes than the queue pair was made for"};
  }
  if (is_inline) {
    for (const Sge& sge : sges) {
      if (sge.length != 0 && sge.address == nullptr) {
        return {StatusCode::kAccessViolation, "inline data at a null address"};
      }
    }
  }
  Deferred deferred;
  {
    SpinGuard guard(lock_);
    if (Status status = CheckPostable(); !status.ok()) return status;
    if (op == Op::kRead && read_outbound_ == 0) {
      return {StatusCode::kInvalidDeviceRequest, "the negotiated outbound read limit is 0"};
    }
    InitiatorRequest& request = initiator_.at(initiator_.head);
    request.context = context;
    request.op = op;
    request.started = request.done = false;
    request.is_inline = is_inline;
    request.status = StatusCode::kSuccess;
    request.flags = flags;
    request.token = remote_token;
    request.remote_address = remote_address;
    if (is_inline) {
      std::uint32_t at = 0;
      for (const Sge& sge : sges) {
        if (sge.length != 0) std::memcpy(request.inline_data + at, sge.address, sge.length);
        at += sge.length;
      }
      request.list.count = length == 0 ? 0 : 1;
      request.list.length = length;
      request.list.sges[0] = Sge{request.inline_data, length, 0};
    } else {
      request.list.Assign(sges, length);
    }
    ++initiator_.head;
    AfterPost();
    Leave(&deferred);
  }
  if (deferred) deferred.Run();
  return Status::Ok();
}

Status SoftQueuePair::Send(void* context, std::span<const Sge> sges, std::uint32_t flags) {
  if ((flags & ~kSendFlags) != 0) return BadFlags(StatusCode::kInvalidParameter4);
  return Post(Op::kSend, context, sges, flags, 0, 0);
}

Status SoftQueuePair::SendAndInvalidate(void* context, std::span<const Sge> sges, std::uint32_t flags,
                                        std::uint32_t remote_token) {
  if ((flags & ~kSendFlags) != 0) return BadFlags(StatusCode::kInvalidParameter4);
  return Post(Op::kSendInvalidate, context, sges, flags, 0, remote_token);
}

Status SoftQueuePair::Write(void* context, std::span<const Sge> sges, std::uint64_t remote_address,
                            std::uint32_t remote_token, std::uint32_t flags) {
  if ((flags & ~kWriteFlags) != 0) return BadFlags(StatusCode::kInvalidParameter6);
  return Post(Op::kWrite, context, sges, flags, remote_address, remote_token);
}

Status SoftQueuePair::Read(void* context, std::span<const Sge> sges, std::uint64_t remote_address,
                           std::uint32_t remote_token, std::uint32_t flags) {
  if ((flags & ~kReadFlags) != 0) return BadFlags(StatusCode::kInvalidParameter6);
  return Post(Op::kRead, context, sges, flags, remote_address, remote_token);
}

Status SoftQueuePair::PostLocal(Op op, void* context, std::shared_ptr<SoftWindow> window, std::uint32_t token,
                                std::uint32_t flags) {
  InitiatorRequest& request = initiator_.at(initiator_.head);
  request.context = context;
  request.op = op;
  request.started = request.done = request.is_inline = false;
  request.status = StatusCode::kSuccess;
  request.flags = flags;
  request.token = token;
  request.list.count = request.list.length = 0;
  request.window = std::move(window);
  ++initiator_.head;
  AfterPost();
  return Status::Ok();
}

Status SoftQueuePair::BindWindow(void* context, MemoryRegion& region, MemoryWindow& window, void* address,
                                 std::size_t length, std::uint32_t flags) {
  if (core_->forked()) return InParent();
  if ((flags & ~kBindFlags) != 0 || (flags & (kOpAllowRead | kOpAllowWrite)) == 0) {
    return BadFlags(StatusCode::kInvalidParameter6);
  }
  auto* soft_region = dynamic_cast<SoftRegion*>(&region);
  auto* soft_window = dynamic_cast<SoftWindow*>(&window);
  if (soft_region == nullptr || soft_region->core() != core_) {
    return {StatusCode::kInvalidParameter2, "the region belongs to another adapter"};
  }
  if (soft_window == nullptr || soft_window->core() != core_) {
    return {StatusCode::kInvalidParameter3, "the window belongs to another adapter"};
  }
  std::uint32_t access = 0;
  if ((flags & kOpAllowRead) != 0) access |= kAllowRemoteRead;
  if ((flags & kOpAllowWrite) != 0) access |= kAllowRemoteWrite;
  Deferred deferred;
  Status status;
  {
    SpinGuard guard(lock_);
    status = CheckPostable();
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
  if (core_->forked()) return InParent();
  if ((flags & ~kReadFlags) != 0) return BadFlags(StatusCode::kInvalidParameter3);
  auto* soft_window = dynamic_cast<SoftWindow*>(&window);
  if (soft_window == nullptr || soft_window->core() != core_) {
    return {StatusCode::kInvalidParameter2, "the window belongs to another adapter"};
  }
  Deferred deferred;
  Status status;
  {
    SpinGuard guard(lock_);
    status = CheckPostable();
    if (!status.ok()) return status;
    status = PostLocal(Op::kInvalidate, context, soft_window->shared_from_this(), soft_window->remote_token(),
                       flags);
    Leave(&deferred);
  }
  if (deferred) deferred.Run();
  return status;
}

Status SoftQueuePair::Receive(void* context, std::span<const Sge> sges) {
  if (core_->forked()) [[unlikely]]
    return InParent();
  if (srq_) return {StatusCode::kInvalidDeviceRequest, "receives go to the shared receive queue"};
  std::uint32_t length = 0;
  if (Status status = CheckSges(sges, max_receive_sge_, core_->info.max_transfer_length, &length);
      !status.ok()) {
    return status;
  }
  Deferred deferred;
  {
    SpinGuard guard(lock_);
    if (receives_.full()) return {StatusCode::kNoMoreEntries, "the receive queue is full"};
    ReceiveRequest& request = receives_.at(receives_.head);
    request.context = context;
    request.list.Assign(sges, length);
    ++receives_.head;
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
