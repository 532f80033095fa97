// SPDX-License-Identifier: Apache-2.0
// Writes and Reads by the initiator alone: one memcpy where the peer shares the memory, one call of the
// system (process_copy.cc) where its process can be reached.
//
// `hazard` names the STag while the copy runs, so that the peer's Deregister waits for it: this side
// publishes the hazard, fences, and reads the peer's table; the peer removes the STag, fences, and reads the
// hazard.
#include <algorithm>
#include <cstring>

#include "provider/soft/qp/shm/sender.h"
#include "provider/soft/qp/transfer/atomic_operation.h"
#include "provider/soft/qp/transfer/placement.h"

namespace nd::provider::soft {
namespace {

// A copy that takes longer than that releases the lock in between.
constexpr std::uint32_t kMostAtOnce = 1024 * 1024;

std::uint32_t AccessOf(Op op) {
  return IsWrite(op) ? kAllowRemoteWrite : IsAtomic(op) ? kAllowRemoteAtomic : kAllowRemoteRead;
}

// The alignment is checked again, because the place comes from the peer's table.
bool Aligned(const std::byte* memory) {
  return reinterpret_cast<std::uintptr_t>(memory) % kAtomicSize == 0;
}

void OperateInto(std::byte* here, std::byte* there, const InitiatorRequest& request) {
  const std::uint64_t before = Operate(there, request.op == Op::kCompareSwap, request.operands);
  std::memcpy(here, &before, kAtomicSize);
}

[[gnu::always_inline]] inline void CopyBytes(std::byte* to, const std::byte* from, std::uint32_t length) {
  length <= kMostWithoutCall ? CopySmall(to, from, length) : static_cast<void>(std::memcpy(to, from, length));
}

}  // namespace

// Returns the memory that the request names; nothing when the request fails a check, or the memory cannot be
// accessed from here. Call it between the two stores of the hazard.
std::optional<ShmSender::PeerPlace> ShmSender::FindPlace(const InitiatorRequest& request,
                                                         std::uint64_t address, std::uint32_t length) {
  const auto region = ReadRegion(state_.memory.peer_table(), request.token);
  const std::uint32_t access = AccessOf(request.op);
  const SideControl& theirs = state_.rings.theirs();
  const std::uint32_t allowed = region ? region->access & ~theirs.denied.load(std::memory_order_relaxed) : 0;
  if (!region || (allowed & access) != access || !region->Contains(address, length) ||
      region->domain != theirs.domain.load(std::memory_order_relaxed) ||
      (region->queue_pair != 0 && region->queue_pair != theirs.number.load(std::memory_order_relaxed)) ||
      theirs.closed.load(std::memory_order_relaxed) != 0) {
    return std::nullopt;
  }
  const bool writes = IsWrite(request.op) || IsAtomic(request.op);
  const std::uint32_t borrowed = region->buffer == 0 && !region->window ? region->borrowed : 0;
  const std::uint32_t buffer = borrowed != 0 ? borrowed : region->buffer;
  const Mapping* mapping = buffer != 0 ? state_.memory.PeerBuffer(buffer, writes) : nullptr;
  if (region->buffer == 0 && mapping == nullptr) {
    // One request goes through the ring, and the peer gives the memory to the next ones.
    if (borrowed != 0 && !partial_.active() && state_.memory.ShouldAskFor(borrowed)) return std::nullopt;
    // The end of a window does not wait for a peer that was stopped in the middle of the call.
    if (IsAtomic(request.op) || region->window || !state_.peer_process.reachable()) return std::nullopt;
    return PeerPlace{.there = address + region->shift};
  }
  const std::uint64_t inside = address - region->base;
  if (mapping == nullptr || region->buffer_offset > mapping->size() ||
      inside > mapping->size() - region->buffer_offset ||
      length > mapping->size() - region->buffer_offset - inside) {
    return std::nullopt;
  }
  std::byte* const memory = mapping->data() + region->buffer_offset + inside;
  if (IsAtomic(request.op) && !Aligned(memory)) return std::nullopt;
  return PeerPlace{.here = memory, .borrowed = borrowed != 0};
}

[[gnu::always_inline]] inline std::byte* ShmSender::FindMapped(const OneSided& request) {
  const std::uint32_t access = AccessOf(request.op);
  const std::uint32_t length = request.here.length;
  const SideControl& theirs = state_.rings.theirs();
  const RegionEntry& entry = state_.memory.peer_table()[SlotOf(request.token)];
  if (request.token == 0 || entry.stag.load(std::memory_order_acquire) != request.token) return nullptr;
  const std::uint32_t allowed =
      entry.access.load(std::memory_order_relaxed) & ~theirs.denied.load(std::memory_order_relaxed);
  const std::uint64_t inside = request.address - entry.base.load(std::memory_order_relaxed);
  const std::uint64_t size = entry.length.load(std::memory_order_relaxed);
  const std::uint64_t offset = entry.buffer_offset.load(std::memory_order_relaxed);
  std::uint32_t buffer = entry.buffer.load(std::memory_order_relaxed);
  if (buffer == 0 && !Busy(request.op)) buffer = entry.borrowed.load(std::memory_order_relaxed);
  const std::uint32_t queue_pair = entry.queue_pair.load(std::memory_order_relaxed);
  if ((allowed & access) != access || inside > size || length > size - inside || buffer == 0 ||
      entry.domain.load(std::memory_order_relaxed) != theirs.domain.load(std::memory_order_relaxed) ||
      (queue_pair != 0 && queue_pair != theirs.number.load(std::memory_order_relaxed)) ||
      theirs.closed.load(std::memory_order_relaxed) != 0) {
    return nullptr;
  }
  // The values are of one entry only if it is still live.
  std::atomic_thread_fence(std::memory_order_acquire);
  if (entry.stag.load(std::memory_order_relaxed) != request.token) return nullptr;
  const Mapping* const mapping = state_.memory.PeerBuffer(buffer, request.op != Op::kRead);
  if (mapping == nullptr || offset > mapping->size() || inside > mapping->size() - offset ||
      length > mapping->size() - offset - inside) {
    return nullptr;
  }
  std::byte* const memory = mapping->data() + offset + inside;
  return IsAtomic(request.op) && !Aligned(memory) ? nullptr : memory;
}

template <typename Copy>
[[gnu::always_inline]] inline bool ShmSender::WithMapped(const OneSided& request, Copy copy) {
  if (request.here.length == 0 || request.here.length > kMostAtOnce || state_.rings.write_in_ring())
    return false;
  state_.runnable = false;
  std::atomic<std::uint32_t>& hazard = state_.rings.mine().hazard;
  hazard.store(request.token, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_seq_cst);
  std::byte* const there = FindMapped(request);
  if (there != nullptr) copy(static_cast<std::byte*>(request.here.address), there);
  hazard.store(0, std::memory_order_release);
  return there != nullptr;
}

bool ShmSender::CopyAtOnce(const OneSided& request) {
  if (busy() || !state_.responses.empty() || state_.goodbye_wanted || state_.memory.peer_table() == nullptr)
    return false;
  const std::uint32_t length = request.here.length;
  if (request.op == Op::kWrite) {
    return WithMapped({Op::kWrite, request.here, request.token, request.address},
                      [=](std::byte* here, std::byte* there) { CopyBytes(there, here, length); });
  }
  return WithMapped({Op::kRead, request.here, request.token, request.address},
                    [=](std::byte* here, std::byte* there) { CopyBytes(here, there, length); });
}

// The same for a request in the initiator queue, and for atomic operations.
bool ShmSender::StartCopy(InitiatorRequest& posted) {
  SoftQueuePair& queue_pair = state_.queue_pair;
  const OneSided request{posted.op, posted.list.sges[0], posted.token, posted.remote_address};
  if (!queue_pair.MayStart(posted, posted.op)) return false;
  const bool copied = WithMapped(request, [&](std::byte* here, std::byte* there) {
    if (IsAtomic(posted.op)) return OperateInto(here, there, posted);
    const bool write = posted.op == Op::kWrite;
    std::memcpy(write ? there : here, write ? here : there, posted.list.length);
  });
  if (!copied) return false;
  queue_pair.Started(posted);
  CompleteCopy(posted, true);
  return true;
}

// Returns true when the request, or a part of it, was copied. A request that fails a check goes through the
// ring, where the target's answer decides. Sets *waits when earlier requests are still in the ring.
bool ShmSender::Direct(InitiatorRequest& request, std::size_t* budget, bool* waits) {
  std::atomic<std::uint32_t>& hazard = state_.rings.mine().hazard;
  const bool starts = !partial_.active();
  const std::uint32_t done = starts ? 0 : partial_.done;
  const std::uint32_t left = request.list.length - done;
  if (starts && left == 0) return false;
  // An atomic operation is not divided.
  if (IsAtomic(request.op)) *budget = std::max<std::size_t>(*budget, kAtomicSize);

  hazard.store(request.token, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_seq_cst);
  const std::optional<PeerPlace> place = FindPlace(request, request.remote_address + done, left);
  Way way = Way::kCopy;
  if (starts && place) {
    if (place->here == nullptr) {
      way = WayOf(request);
    } else if (place->borrowed ? Busy(request.op) : state_.rings.write_in_ring()) {
      way = Way::kWait;
    }
  }
  if (!place || way != Way::kCopy) {
    hazard.store(0, std::memory_order_release);
    *waits = place && way == Way::kWait;
    return !starts && LeaveDirect(request, budget);
  }
  return place->here != nullptr ? CopyThere(request, place->here, budget)
                                : CopyByProcess(request, place->there, budget);
}

// Moves the next bytes of a request by memcpy.
bool ShmSender::CopyThere(InitiatorRequest& request, std::byte* remote, std::size_t* budget) {
  SoftQueuePair& queue_pair = state_.queue_pair;
  const bool write = IsWrite(request.op);
  // NextToStart() has checked its memory in this section.
  const bool checked = !partial_.active();
  if (!partial_.active()) {
    partial_.Begin(queue_pair.initiator().next, request.list);
    partial_path_ = Path::kDirect;
    queue_pair.Started(request);
  }
  const std::uint32_t access_here = write ? 0u : kAllowLocalWrite | kRdmaReadSink;
  std::size_t moved = 0;
  bool good = true;
  while (*budget != 0 && partial_.done < request.list.length) {
    const Sge* sge = nullptr;
    const auto piece =
        partial_.from.Next(std::min<std::size_t>(*budget, request.list.length - partial_.done), &sge);
    good = checked || request.is_inline || queue_pair.CheckLocal(*sge, access_here);
    if (!good) break;
    if (write) {
      std::memcpy(remote + moved, piece.data(), piece.size());
    } else if (IsAtomic(request.op)) {
      OperateInto(piece.data(), remote, request);
    } else {
      std::memcpy(piece.data(), remote + moved, piece.size());
    }
    moved += piece.size();
    partial_.done += static_cast<std::uint32_t>(piece.size());
    *budget -= piece.size();
  }
  state_.rings.mine().hazard.store(0, std::memory_order_release);
  return FinishDirect(request, good, budget);
}

// After some bytes were moved, and the hazard was cleared.
bool ShmSender::FinishDirect(InitiatorRequest& request, bool good, std::size_t* budget) {
  if (good && partial_.done < request.list.length) return true;
  if (good && request.op == Op::kWriteImmediate) {
    partial_path_ = Path::kRing;
    SendPieces(request, budget);
    return true;
  }
  partial_.End();
  CompleteCopy(request, good);
  return true;
}

void ShmSender::CompleteCopy(InitiatorRequest& request, bool good) {
  SoftQueuePair& queue_pair = state_.queue_pair;
  if (!IsWrite(request.op) && good) queue_pair.CountCopiedAnswer(request.list.length);
  if (good && queue_pair.CompleteOnly(request)) return;
  queue_pair.CompleteInitiator(request, good ? StatusCode::kSuccess : StatusCode::kAccessViolation);
}

// The target ended the registration in the middle of a request, or memory is gone; the target's answer in the
// ring decides.
bool ShmSender::LeaveDirect(InitiatorRequest& request, std::size_t* budget) {
  // A peer that has closed its side answers nothing any more; its end cancels the request.
  if (state_.rings.theirs().closed.load(std::memory_order_relaxed) != 0) return false;
  partial_path_ = Path::kRing;
  if (IsWrite(request.op)) return SendPieces(request, budget);
  partial_.End();
  state_.queue_pair.CompleteInitiator(request, StatusCode::kAccessViolation);
  return true;
}

}  // namespace nd::provider::soft
