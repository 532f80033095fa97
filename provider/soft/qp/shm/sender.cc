// SPDX-License-Identifier: Apache-2.0
// Requests and answers that go through the ring. direct_copy.cc has the others.
#include "provider/soft/qp/shm/sender.h"

#include <algorithm>
#include <cstring>

#include "provider/soft/qp/transfer/atomic_operation.h"
#include "provider/soft/qp/transfer/placement.h"

namespace nd::provider::soft {
namespace {

// The bytes that one call moves before it releases the lock.
constexpr std::size_t kBudget = 1024 * 1024;
constexpr std::uint32_t kReferenceFrom = 256;
constexpr std::uint32_t kReferencePiece = 256 * 1024;
// The work of publishing a reference, in bytes of the budget.
constexpr std::size_t kReferenceCost = 64;

}  // namespace

void ShmSender::OnFlush() {
  state_.rings.OnFlush();
  state_.reads.Flush([](ShmRead&) {});
  if (partial_.active() && partial_path_ != Path::kDirect && partial_.done != 0 &&
      !IsWrite(state_.queue_pair.initiator().at(partial_.position).op)) {
    abandon_wanted_ = true;  // The receiver fills the same receive again from its start.
  }
  partial_.End();
}

[[gnu::always_inline]] inline bool ShmSender::SendAtOnce(InitiatorRequest& posted, std::uint64_t position) {
  SoftQueuePair& queue_pair = state_.queue_pair;
  ShmRings& rings = state_.rings;
  if (!queue_pair.MayStart(posted, Op::kSend)) return false;
  const Sge& from = posted.list.sges[0];
  const std::uint32_t length = posted.list.length;
  const std::optional<Reference> reference =
      length < kReferenceFrom || posted.is_inline ? std::nullopt : Share(from);
  if (!reference && length > kMaxChunk) return false;
  if (!rings.HasRoom(reference ? 0 : length)) return false;
  state_.runnable = false;
  Slot& slot = rings.Claim();
  slot.kind = RecordKind::kSend;
  slot.flags = kLastPiece;
  if ((posted.flags & kOpSendAndSolicit) != 0) slot.flags |= kSolicited;
  slot.token = 0;
  slot.address = slot.place = 0;
  if (length <= kInlineSize) {
    slot.flags |= kInlineBytes;
    slot.length = length;
    CopySmall(slot.bytes, static_cast<const std::byte*>(from.address), length);
  } else if (reference) {
    slot.flags |= kByReference;
    slot.length = length;
    slot.address = reference->buffer;
    slot.place = reference->place;
  } else {
    rings.CopyIn(slot, static_cast<const std::byte*>(from.address), length);
  }
  queue_pair.Started(posted, Op::kSend);
  rings.Publish(slot, position, true);
  rings.NoteRequest(false);
  return true;
}

bool ShmSender::StartAtOnce() {
  SoftQueuePair& queue_pair = state_.queue_pair;
  const std::uint64_t position = queue_pair.initiator().next;
  InitiatorRequest& posted = queue_pair.initiator().at(position);
  if (position + 1 != queue_pair.initiator().head || posted.list.count != 1 || busy() ||
      !state_.responses.empty() || state_.goodbye_wanted || !queue_pair.live()) {
    return false;
  }
  if (posted.op == Op::kSend) return posted.list.length <= kReferencePiece && SendAtOnce(posted, position);
  const bool one_sided = posted.op == Op::kWrite || IsAnswered(posted.op);
  return one_sided && state_.memory.peer_table() != nullptr && StartCopy(posted);
}

bool ShmSender::Transmit() {
  SoftQueuePair& queue_pair = state_.queue_pair;
  state_.runnable = false;
  if (!queue_pair.live()) return false;
  std::size_t budget = kBudget;
  bool moved = false;
  if (abandon_wanted_) {
    if (!state_.rings.PublishControl(RecordKind::kAbandonSend)) return false;
    abandon_wanted_ = false;
  }
  if (!state_.responses.empty()) moved |= Respond();
  for (;;) {
    if (partial_.active()) {
      if (!ContinuePartial(&budget)) break;
      moved = true;
      if (partial_.active()) break;
    }
    if (state_.goodbye_wanted) break;
    InitiatorRequest* request = queue_pair.NextToStart();
    if (request == nullptr || !queue_pair.live()) break;
    bool waits = false;
    const bool one_sided = !IsSend(request->op);
    if (one_sided) state_.memory.ShowTable();
    if (one_sided && state_.memory.peer_table() != nullptr && Direct(*request, &budget, &waits)) {
      moved = true;
      if (!queue_pair.live()) break;
      continue;
    }
    if (waits) break;
    if (!Start(*request)) {
      QpCounters::Add(queue_pair.counters().stalls, 1);
      break;
    }
    moved = true;
  }
  state_.runnable = state_.runnable || (partial_.active() && budget == 0);
  return moved;
}

bool ShmSender::Start(InitiatorRequest& request) {
  ShmRings& rings = state_.rings;
  const std::uint64_t position = state_.queue_pair.initiator().next;
  if (IsAnswered(request.op)) return StartRead(request);
  if (request.list.length <= kInlineSize && request.list.count == 1 && request.op != Op::kWriteImmediate) {
    // The common case: one cache line.
    if (!rings.HasRoom(0)) return false;
    Slot& slot = rings.Claim();
    slot.address = request.remote_address;
    slot.flags = kInlineBytes;
    slot.length = request.list.length;
    CopySmall(slot.bytes, static_cast<const std::byte*>(request.list.sges[0].address), slot.length);
    state_.queue_pair.Started(request);
    PublishPiece(slot, request, position, true);
    return true;
  }
  const bool small = request.list.length <= kMaxChunk;
  const bool reference =
      !IsWrite(request.op) && request.list.length >= kReferenceFrom && CanGoByReference(request);
  if (!rings.HasRoom(reference ? 0 : std::min(request.list.length, kMaxChunk))) return false;
  if (small && !reference && request.op != Op::kWriteImmediate) {
    // One record.
    Slot& slot = rings.Claim();
    slot.address = request.remote_address;
    SgeCursor from(request.list);
    rings.CopyIn(slot, from, request.list.length);
    state_.queue_pair.Started(request);
    PublishPiece(slot, request, position, true);
    return true;
  }
  partial_.Begin(position, request.list);
  partial_path_ = reference ? Path::kReference : Path::kRing;
  state_.queue_pair.Started(request);
  return true;
}

// The slot has its bytes and its address.
void ShmSender::PublishPiece(Slot& slot, const InitiatorRequest& request, std::uint64_t position, bool last) {
  const bool write = IsWrite(request.op);
  slot.kind = write ? RecordKind::kWrite : RecordKind::kSend;
  slot.token = request.token;
  if (last) {
    slot.flags |= kLastPiece;
    if (request.op == Op::kSendInvalidate) slot.flags |= kInvalidates;
    if (request.op == Op::kSendImmediate) {
      slot.flags |= kHasImmediate;
      slot.token = request.operands.immediate;
    }
    if ((request.flags & kOpSendAndSolicit) != 0) slot.flags |= kSolicited;
  }
  state_.rings.Publish(slot, position, last && request.op != Op::kWriteImmediate);
  state_.rings.NoteRequest(write);
}

void ShmSender::PublishImmediate(const InitiatorRequest& request) {
  Slot& slot = state_.rings.Claim();
  slot.kind = RecordKind::kImmediate;
  slot.token = request.operands.immediate;
  slot.length = request.list.length;
  if ((request.flags & kOpSendAndSolicit) != 0) slot.flags |= kSolicited;
  state_.rings.Publish(slot, partial_.position, true);
  partial_.End();
}

bool ShmSender::ContinuePartial(std::size_t* budget) {
  InitiatorRequest& request = state_.queue_pair.initiator().at(partial_.position);
  if (partial_path_ == Path::kDirect) {
    bool waits = false;
    return Direct(request, budget, &waits);
  }
  return SendPieces(request, budget);
}

bool ShmSender::SendPieces(InitiatorRequest& request, std::size_t* budget) {
  ShmRings& rings = state_.rings;
  const bool reference = partial_path_ == Path::kReference;
  bool moved = false;
  while (partial_.active() && *budget != 0) {
    const std::uint32_t left = request.list.length - partial_.done;
    if (left == 0 && request.op == Op::kWriteImmediate) {
      if (!rings.HasRoom(0)) break;
      PublishImmediate(request);
      return true;
    }
    const std::uint32_t chunk = std::min(left, reference ? kReferencePiece : kMaxChunk);
    if (!rings.HasRoom(reference ? 0 : chunk)) break;
    Slot& slot = rings.Claim();
    if (!reference) {
      slot.address = request.remote_address + partial_.done;
      rings.CopyIn(slot, partial_.from, chunk);
    } else if (!FillByReference(slot, chunk)) {
      state_.queue_pair.EndConnection(EndCode::kLocal);
      return true;
    }
    partial_.done += slot.length;
    *budget -= std::min<std::size_t>(*budget, reference ? kReferenceCost : slot.length);
    const bool last = partial_.done == request.list.length;
    PublishPiece(slot, request, partial_.position, last);
    if (last && request.op != Op::kWriteImmediate) partial_.End();
    moved = true;
  }
  return moved;
}

std::optional<ShmSender::Reference> ShmSender::ReferenceTo(const Sge& sge) const {
  const auto shared = ReadSharedPlace(state_.queue_pair.core().regions->entries(), sge.local_token);
  if (!shared) return std::nullopt;
  return Reference{shared->buffer,
                   shared->offset + (reinterpret_cast<std::uintptr_t>(sge.address) - shared->memory)};
}

std::optional<ShmSender::Reference> ShmSender::Share(const Sge& sge) {
  if (!state_.memory.enabled()) return std::nullopt;
  const auto reference = ReferenceTo(sge);
  if (!reference || !state_.memory.ShareForSends(reference->buffer, reference->place + sge.length)) {
    return std::nullopt;
  }
  return reference;
}

// Refers to the next piece of the partial request. Returns false when its buffer is not registered any more.
bool ShmSender::FillByReference(Slot& slot, std::uint32_t limit) {
  const Sge* sge = nullptr;
  const auto piece = partial_.from.Next(limit, &sge);
  const auto reference = ReferenceTo(*sge);
  if (!reference) return false;
  slot.flags |= kByReference;
  slot.address = reference->buffer;
  slot.place =
      reference->place + static_cast<std::uint64_t>(piece.data() - static_cast<std::byte*>(sge->address));
  slot.length = static_cast<std::uint32_t>(piece.size());
  return true;
}

bool ShmSender::CanGoByReference(const InitiatorRequest& request) {
  if (request.is_inline) return false;
  for (std::uint32_t i = 0; i < request.list.count; ++i) {
    const Sge& sge = request.list.sges[i];
    if (sge.length != 0 && !Share(sge)) return false;
  }
  return state_.memory.enabled();
}

bool ShmSender::StartRead(InitiatorRequest& request) {
  ShmRings& rings = state_.rings;
  if (state_.reads.full() || !rings.HasRoom(0)) return false;
  const std::uint64_t position = state_.queue_pair.initiator().next;
  const std::uint32_t number = state_.reads.started();
  state_.reads.Start({{position, request.list.length, 0, SgeCursor(request.list)}, number});
  Slot& slot = rings.Claim();
  slot.kind = RecordKind::kReadRequest;
  if (IsAtomic(request.op)) {
    slot.kind = request.op == Op::kFetchAdd ? RecordKind::kFetchAdd : RecordKind::kCompareSwap;
    std::memcpy(slot.bytes, &request.operands.value, kAtomicSize);
    std::memcpy(slot.bytes + kAtomicSize, &request.operands.compare, kAtomicSize);
  }
  slot.token = request.token;
  slot.address = request.remote_address;
  slot.length = request.list.length;
  slot.place = number;
  state_.queue_pair.Started(request);
  rings.Publish(slot, position, false);
  return true;
}

bool ShmSender::Respond() {
  ShmRings& rings = state_.rings;
  bool moved = false;
  std::size_t budget = kBudget;
  while (!state_.responses.empty() && budget != 0) {
    ShmResponse& read = state_.responses.oldest();
    const std::uint32_t chunk = std::min(read.remaining, kMaxChunk);
    if (!rings.HasRoom(chunk)) break;
    std::uint64_t before = 0;
    const std::byte* from = reinterpret_cast<const std::byte*>(&before);
    if (read.kind == RecordKind::kReadRequest) {
      from = ResponseSource(state_.queue_pair, read.stag, read.address, chunk);
      if (from == nullptr) return true;
    } else {
      std::byte* const word = AtomicTarget(state_.queue_pair, read.stag, read.address);
      if (word == nullptr) return true;
      before = Operate(word, read.kind == RecordKind::kCompareSwap, read.operands);
    }
    Slot& slot = rings.Claim();
    slot.kind = RecordKind::kReadResponse;
    slot.token = read.number;
    rings.CopyIn(slot, from, chunk);
    read.address += chunk;
    read.remaining -= chunk;
    budget -= std::min<std::size_t>(budget, chunk);
    if (read.remaining == 0) {
      slot.flags |= kLastPiece;
      state_.responses.Pop();
      QpCounters::Add(state_.queue_pair.counters().rx_reads, 1);
    }
    rings.Publish(slot, kNoRequest, false);
    moved = true;
  }
  state_.runnable = state_.runnable || budget == 0;
  return moved;
}

}  // namespace nd::provider::soft
