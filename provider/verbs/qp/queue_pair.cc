// SPDX-License-Identifier: Apache-2.0
// Translates requests of Network Direct into work requests of the device, and its completions back.
#include "provider/verbs/qp/queue_pair.h"

#include <algorithm>
#include <utility>

#include "provider/queue_pair_rules.h"
#include "provider/verbs/qp/work_completion.h"

namespace nd::provider::verbs {
namespace {

constexpr std::uint32_t kReceiveBit = 0x80000000;

std::uint64_t WrId(std::uint32_t generation, std::uint32_t low) {
  return std::uint64_t{generation} << 32 | low;
}

}  // namespace

Status SgeList::Fill(std::span<const Sge> from, std::uint32_t max_sge, std::uint32_t max_bytes) {
  if (Status bad = CheckSges(from, std::min(max_sge, kMost), max_bytes, &length); !bad.ok()) return bad;
  for (const Sge& sge : from) {
    if (sge.length == 0) continue;  // For some devices a length of 0 means 2 GiB.
    sges[count++] = {reinterpret_cast<std::uintptr_t>(sge.address), sge.length, sge.local_token};
  }
  return {};
}

Status VerbsQueuePair::CheckPostable(RequestType type) {
  return provider::CheckPostable(type, state_.load(std::memory_order_acquire) == State::kConnected,
                                 initiator_.Next() == nullptr,
                                 read_outbound_.load(std::memory_order_relaxed));
}

Status VerbsQueuePair::Post(ibv_send_wr* request, RequestType type, void* context, std::uint32_t length,
                            std::uint32_t flags, std::shared_ptr<VerbsWindow> window) {
  PostedRequest* const slot = initiator_.Next();
  slot->context = context;
  slot->length = length;
  slot->type = type;
  slot->silent = (flags & kOpSilentSuccess) != 0;
  slot->window = std::move(window);
  request->wr_id = WrId(generation_, initiator_.next());
  if (!slot->silent || ++since_signal_ >= signal_every_) {
    request->send_flags |= IBV_SEND_SIGNALED;
    since_signal_ = 0;
  }
  // iWARP answers Reads in order, so a Read needs no fence there, and siw refuses a fence.
  const bool ordered = context_->iwarp && type == RequestType::kRead;
  if ((flags & kOpReadFence) != 0 && !ordered) request->send_flags |= IBV_SEND_FENCE;
  if ((flags & kOpSendAndSolicit) != 0) request->send_flags |= IBV_SEND_SOLICITED;
  if ((flags & kOpInline) != 0) request->send_flags |= IBV_SEND_INLINE;
  initiator_.Commit();  // Its completion may come before ibv_post_send returns.
  ibv_send_wr* bad = nullptr;
  if (const int error = ibv_post_send(qp_, request, &bad); error != 0) {
    initiator_.TakeBack();
    slot->window.reset();
    return FromPost(error);
  }
  return {};
}

Status VerbsQueuePair::PostData(ibv_wr_opcode opcode, RequestType type, void* context,
                                std::span<const Sge> sges, std::uint32_t flags, std::uint32_t max_sge,
                                ibv_send_wr* request) {
  if (context_->forked()) [[unlikely]]
    return InParent();
  SgeList list;
  if (Status status = list.Fill(sges, max_sge, context_->info.max_transfer_length); !status.ok())
    return status;
  if ((flags & kOpInline) != 0) {
    if (Status status = CheckInline(sges, list.length, inline_size_); !status.ok()) return status;
  }
  if (Status status = CheckPostable(type); !status.ok()) return status;
  request->opcode = opcode;
  request->sg_list = list.sges;
  request->num_sge = list.count;
  if (Status status = Post(request, type, context, list.length, flags, nullptr); !status.ok()) return status;
  switch (type) {
    case RequestType::kWrite:
      QpCounters::Add(counters_->tx_writes, 1);
      break;
    case RequestType::kRead:
      QpCounters::Add(counters_->tx_reads, 1);
      return {};
    default:
      QpCounters::Add(counters_->tx_sends, 1);
      break;
  }
  QpCounters::Add(counters_->tx_bytes, list.length);
  return {};
}

Status VerbsQueuePair::Send(void* context, std::span<const Sge> sges, std::uint32_t flags) {
  if (Status bad = CheckFlags(RequestType::kSend, flags); !bad.ok()) return bad;
  ibv_send_wr request{};
  return PostData(IBV_WR_SEND, RequestType::kSend, context, sges, flags, max_initiator_sge_, &request);
}

Status VerbsQueuePair::SendAndInvalidate(void* context, std::span<const Sge> sges, std::uint32_t flags,
                                         std::uint32_t remote_token) {
  if (Status bad = CheckFlags(RequestType::kSend, flags); !bad.ok()) return bad;
  ibv_send_wr request{};
  request.invalidate_rkey = remote_token;
  return PostData(IBV_WR_SEND_WITH_INV, RequestType::kSend, context, sges, flags, max_initiator_sge_,
                  &request);
}

Status VerbsQueuePair::Write(void* context, std::span<const Sge> sges, std::uint64_t remote_address,
                             std::uint32_t remote_token, std::uint32_t flags) {
  if (Status bad = CheckFlags(RequestType::kWrite, flags); !bad.ok()) return bad;
  ibv_send_wr request{};
  request.wr.rdma.remote_addr = remote_address;
  request.wr.rdma.rkey = remote_token;
  return PostData(IBV_WR_RDMA_WRITE, RequestType::kWrite, context, sges, flags, max_initiator_sge_, &request);
}

Status VerbsQueuePair::Read(void* context, std::span<const Sge> sges, std::uint64_t remote_address,
                            std::uint32_t remote_token, std::uint32_t flags) {
  if (Status bad = CheckFlags(RequestType::kRead, flags); !bad.ok()) return bad;
  ibv_send_wr request{};
  request.wr.rdma.remote_addr = remote_address;
  request.wr.rdma.rkey = remote_token;
  return PostData(IBV_WR_RDMA_READ, RequestType::kRead, context, sges, flags,
                  std::min(max_initiator_sge_, context_->info.max_read_sge), &request);
}

Status VerbsQueuePair::BindWindow(void* context, MemoryRegion& region, MemoryWindow& window, void* address,
                                  std::size_t length, std::uint32_t flags) {
  if (Status bad = CheckFlags(RequestType::kBind, flags); !bad.ok()) return bad;
  if (context_->forked()) return InParent();
  auto* const verbs_region = dynamic_cast<VerbsRegion*>(&region);
  auto* const verbs_window = dynamic_cast<VerbsWindow*>(&window);
  if (verbs_region == nullptr || verbs_region->context() != context_) {
    return OtherAdaptersRegion();
  }
  if (verbs_window == nullptr || verbs_window->context() != context_) {
    return OtherAdaptersWindow(StatusCode::kInvalidParameter3);
  }
  if (Status status = CheckPostable(RequestType::kBind); !status.ok()) return status;
  if (!verbs_region->Covers(address, length)) {
    return {StatusCode::kAccessViolation, "the window would reach outside the region"};
  }
  ibv_send_wr request{};
  request.opcode = IBV_WR_BIND_MW;
  request.bind_mw.mw = verbs_window->mw();
  request.bind_mw.rkey = verbs_window->NextToken();
  request.bind_mw.bind_info.mr = verbs_region->mr();
  request.bind_mw.bind_info.addr = reinterpret_cast<std::uintptr_t>(address);
  request.bind_mw.bind_info.length = length;
  unsigned rights = 0;
  if ((flags & kOpAllowRead) != 0) rights |= IBV_ACCESS_REMOTE_READ;
  if ((flags & kOpAllowWrite) != 0) rights |= IBV_ACCESS_REMOTE_WRITE;
  request.bind_mw.bind_info.mw_access_flags = rights;
  const std::uint32_t token = request.bind_mw.rkey;
  if (Status status = Post(&request, RequestType::kBind, context, 0, flags & ~(kOpAllowRead | kOpAllowWrite),
                           verbs_window->shared_from_this());
      !status.ok()) {
    return status;
  }
  verbs_window->Bound(verbs_region->shared_from_this(), token);
  std::lock_guard lock(mutex_);
  std::erase_if(windows_, [](const auto& bound) { return bound.expired(); });
  windows_.push_back(verbs_window->weak_from_this());
  return {};
}

Status VerbsQueuePair::Invalidate(void* context, MemoryWindow& window, std::uint32_t flags) {
  if (Status bad = CheckFlags(RequestType::kInvalidate, flags); !bad.ok()) return bad;
  if (context_->forked()) return InParent();
  auto* const verbs_window = dynamic_cast<VerbsWindow*>(&window);
  if (verbs_window == nullptr || verbs_window->context() != context_) {
    return OtherAdaptersWindow(StatusCode::kInvalidParameter2);
  }
  if (Status status = CheckPostable(RequestType::kInvalidate); !status.ok()) return status;
  ibv_send_wr request{};
  request.opcode = IBV_WR_LOCAL_INV;
  request.invalidate_rkey = verbs_window->remote_token();
  return Post(&request, RequestType::kInvalidate, context, 0, flags, verbs_window->shared_from_this());
}

Status VerbsQueuePair::Receive(void* context, std::span<const Sge> sges) {
  if (context_->forked()) [[unlikely]]
    return InParent();
  if (srq_) return ReceivesAreShared();
  SgeList list;
  if (Status status = list.Fill(sges, max_receive_sge_, context_->info.max_transfer_length); !status.ok()) {
    return status;
  }
  PostedRequest* const slot = receives_.Next();
  if (slot == nullptr) return ReceiveQueueFull();
  if (state_.load(std::memory_order_acquire) == State::kClosed) {
    receive_cq_->Push({StatusCode::kCanceled, 0, user_context_, context, RequestType::kReceive});
    return {};  // No completion can arrive any more.
  }
  slot->context = context;
  slot->length = list.length;
  slot->type = RequestType::kReceive;
  slot->silent = false;
  ibv_recv_wr request{};
  request.wr_id = WrId(generation_, receives_.next() | kReceiveBit);
  request.sg_list = list.sges;
  request.num_sge = list.count;
  receives_.Commit();
  ibv_recv_wr* bad = nullptr;
  if (const int error = ibv_post_recv(qp_, &request, &bad); error != 0) {
    receives_.TakeBack();
    return FromPost(error);
  }
  return {};
}

bool VerbsQueuePair::OnCompletion(const ibv_wc& wc, Completion* out, bool* lost) {
  const auto low = static_cast<std::uint32_t>(wc.wr_id);
  const bool ok = wc.status == IBV_WC_SUCCESS;
  out->status = FromWcStatus(wc.status, (low & kReceiveBit) != 0);
  out->queue_pair_context = user_context_;
  out->bytes_transferred = 0;
  bool deliver = true;
  if (srq_ && wc.wr_id >> 32 == 0) {
    if (!srq_->Finish(wc.wr_id, &out->request_context)) return false;
    out->type = RequestType::kReceive;
    if (ok) out->bytes_transferred = wc.byte_len;
  } else {
    // A completion of another generation belongs to an earlier queue pair with this number.
    if (static_cast<std::uint32_t>(wc.wr_id >> 32) != generation_) return false;
    RequestRing& ring = (low & kReceiveBit) != 0 ? receives_ : initiator_;
    PostedRequest* const request = ring.Finish(low & RequestRing::kSequenceMask);
    if (request == nullptr) return false;
    out->request_context = request->context;
    out->type = request->type;
    if (ok) out->bytes_transferred = request->type == RequestType::kReceive ? wc.byte_len : request->length;
    deliver = !(ok && request->silent);
    if (ok && request->type == RequestType::kInvalidate && request->window) request->window->Unbound();
    if (ok && request->type == RequestType::kRead) QpCounters::Add(counters_->rx_bytes, request->length);
    request->window.reset();
    ring.Retire();
  }
  if (ok && out->type == RequestType::kReceive) {
    QpCounters::Add(counters_->rx_sends, 1);
    QpCounters::Add(counters_->rx_bytes, wc.byte_len);
    if ((wc.wc_flags & IBV_WC_WITH_INV) != 0) {
      std::lock_guard lock(mutex_);
      for (const auto& bound : windows_) {
        const auto window = bound.lock();
        if (window && window->remote_token() == wc.invalidated_rkey) window->Unbound();
      }
    }
  }
  if (!ok) {
    QpCounters::Add(counters_->errors, 1);
    *lost = !ending_.load(std::memory_order_acquire) &&
            state_.load(std::memory_order_acquire) == State::kConnected;
  }
  return deliver;
}

}  // namespace nd::provider::verbs
