// SPDX-License-Identifier: Apache-2.0
// The producer: a small message is one cache line, a large one is sent in pieces or by reference.
#include <algorithm>
#include <cstring>

#include "provider/soft/qp/shm_transport.h"

namespace nd::provider::soft {
namespace {

// The bytes that one call moves before it releases the lock.
constexpr std::size_t kBudget = 1024 * 1024;
constexpr std::uint32_t kReferenceFrom = 8 * 1024;
constexpr std::uint32_t kReferencePiece = 256 * 1024;
constexpr std::uint32_t kNoBytes = 0;

}  // namespace

bool ShmTransport::HasRoom(std::uint32_t bytes) const {
  return tx_head_ - tx_acked_ < kSlots &&
         (bytes <= kInlineSize || kDataSize - (data_head_ - data_tail_) >= bytes);
}

Slot& ShmTransport::Claim() {
  Slot& slot = out().slots[tx_head_ % kSlots];
  slot.flags = 0;
  slot.reserved = 0;
  slot.length = kNoBytes;
  return slot;
}

void ShmTransport::Publish(Slot& slot, std::uint64_t request, bool completes) {
  published_[tx_head_ % kSlots] = {request, data_head_, completes};
  slot.stamp.store(StampOf(tx_head_), std::memory_order_release);
  ++tx_head_;
  doorbell_due_ = true;
}

void ShmTransport::CopyIn(Slot& slot, const std::byte* from, std::uint32_t length) {
  if (length <= kInlineSize) {
    slot.flags |= kInlineBytes;
    if (length != 0) std::memcpy(slot.bytes + slot.length, from, length);
  } else {
    if (slot.length == 0) slot.place = data_head_;
    const auto at = static_cast<std::uint32_t>(data_head_ % kDataSize);
    const std::uint32_t first = std::min(length, kDataSize - at);
    std::memcpy(out().data + at, from, first);
    std::memcpy(out().data, from + first, length - first);
    data_head_ += length;
  }
  slot.length += length;
}

void ShmTransport::CopyIn(Slot& slot, SgeCursor& from, std::uint32_t length) {
  if (length <= kInlineSize) {
    slot.flags |= kInlineBytes;
    while (slot.length < length) {
      const auto piece = from.Next(length - slot.length);
      std::memcpy(slot.bytes + slot.length, piece.data(), piece.size());
      slot.length += static_cast<std::uint32_t>(piece.size());
    }
    return;
  }
  slot.place = data_head_;
  while (slot.length < length) {
    const auto at = static_cast<std::uint32_t>(data_head_ % kDataSize);
    const auto piece = from.Next(std::min(length - slot.length, kDataSize - at));
    std::memcpy(out().data + at, piece.data(), piece.size());
    data_head_ += piece.size();
    slot.length += static_cast<std::uint32_t>(piece.size());
  }
}

bool ShmTransport::PublishControl(RecordKind kind) {
  if (!HasRoom(0)) return false;
  Slot& slot = Claim();
  slot.kind = kind;
  Publish(slot, kNone, false);
  return true;
}

bool ShmTransport::Acknowledge() {
  const std::uint32_t consumed = theirs().consumed.load(std::memory_order_acquire);
  const std::uint32_t passed = consumed - tx_acked_;
  if (passed == 0) return false;
  if (passed > tx_head_ - tx_acked_) {
    Violation();
    return true;
  }
  for (std::uint32_t i = 0; i < passed; ++i) {
    const Published slot = published_[tx_acked_++ % kSlots];
    data_tail_ = slot.data_end;
    if (!slot.completes || slot.request == kNone) continue;
    queue_pair_.CompleteInitiator(queue_pair_.initiator().at(slot.request));
    if (!queue_pair_.live()) break;
  }
  tx_acked_ = consumed;
  if (write_in_ring_ && static_cast<std::int32_t>(tx_acked_ - last_write_end_) >= 0) write_in_ring_ = false;
  return true;
}

bool ShmTransport::TransmitOne() {
  runnable_ = false;
  if (!queue_pair_.live()) return false;
  std::size_t budget = kBudget;
  bool moved = false;
  if (abandon_wanted_) {
    if (!PublishControl(RecordKind::kAbandonSend)) return false;
    abandon_wanted_ = false;
  }
  if (responses_tail_ != responses_head_) moved |= Respond();
  for (;;) {
    if (partial_ != kNone) {
      if (!ContinuePartial(&budget)) break;
      moved = true;
      if (partial_ != kNone) break;
    }
    if (goodbye_wanted_) break;
    InitiatorRequest* request = queue_pair_.NextToStart();
    if (request == nullptr || !queue_pair_.live()) break;
    bool waits = false;
    if (share_ && peer_table_ && (request->op == Op::kWrite || request->op == Op::kRead) &&
        Direct(*request, &budget, &waits)) {
      moved = true;
      if (!queue_pair_.live()) break;
      continue;
    }
    if (waits) break;
    if (!StartRequest(*request)) {
      QpCounters::Add(queue_pair_.counters().stalls, 1);
      break;
    }
    moved = true;
  }
  runnable_ = runnable_ || (partial_ != kNone && budget == 0);
  return moved;
}

bool ShmTransport::StartRequest(InitiatorRequest& request) {
  const std::uint64_t position = queue_pair_.initiator().next;
  if (request.op == Op::kRead) return StartRead(request);
  const bool small = request.list.length <= kMaxChunk;
  const bool reference =
      request.op != Op::kWrite && request.list.length >= kReferenceFrom && CanGoByReference(request);
  if (!HasRoom(reference ? 0 : std::min(request.list.length, kMaxChunk))) return false;
  if (small && !reference) {
    // The common case: one record.
    Slot& slot = Claim();
    slot.kind = request.op == Op::kWrite ? RecordKind::kWrite : RecordKind::kSend;
    slot.token = request.token;
    slot.address = request.remote_address;
    SgeCursor from(request.list);
    CopyIn(slot, from, request.list.length);
    slot.flags |= kLastPiece;
    if (request.op == Op::kSendInvalidate) slot.flags |= kInvalidates;
    if ((request.flags & kOpSendAndSolicit) != 0) slot.flags |= kSolicited;
    queue_pair_.Started(request);
    Publish(slot, position, true);
    if (request.op == Op::kWrite) {
      write_in_ring_ = true;
      last_write_end_ = tx_head_;
    }
    return true;
  }
  partial_ = position;
  partial_from_ = SgeCursor(request.list);
  partial_done_ = 0;
  partial_path_ = reference ? Path::kReference : Path::kRing;
  queue_pair_.Started(request);
  return true;
}

bool ShmTransport::ContinuePartial(std::size_t* budget) {
  InitiatorRequest& request = queue_pair_.initiator().at(partial_);
  if (partial_path_ == Path::kDirect) {
    bool waits = false;
    return Direct(request, budget, &waits);
  }
  return request.op == Op::kWrite ? WritePieces(request, budget) : SendPieces(request, budget);
}

bool ShmTransport::SendPieces(InitiatorRequest& request, std::size_t* budget) {
  bool moved = false;
  while (partial_ != kNone && *budget != 0) {
    const std::uint32_t left = request.list.length - partial_done_;
    const bool reference = partial_path_ == Path::kReference;
    const std::uint32_t chunk = std::min(left, reference ? kReferencePiece : kMaxChunk);
    if (!HasRoom(reference ? 0 : chunk)) break;
    Slot& slot = Claim();
    slot.kind = RecordKind::kSend;
    slot.token = request.token;
    if (reference) {
      const Sge* sge = nullptr;
      const auto piece = partial_from_.Next(chunk, &sge);
      const auto region = queue_pair_.core().regions->Lookup(sge->local_token);
      if (!region || region->buffer == 0) {
        queue_pair_.EndConnection(EndCode::kLocal);
        return true;
      }
      slot.flags |= kByReference;
      slot.address = region->buffer;
      slot.place = region->buffer_offset + (reinterpret_cast<std::uintptr_t>(piece.data()) - region->base);
      slot.length = static_cast<std::uint32_t>(piece.size());
    } else {
      CopyIn(slot, partial_from_, chunk);
    }
    partial_done_ += slot.length;
    *budget -= std::min<std::size_t>(*budget, reference ? 64 : slot.length);
    const bool last = partial_done_ == request.list.length;
    if (last) {
      slot.flags |= kLastPiece;
      if (request.op == Op::kSendInvalidate) slot.flags |= kInvalidates;
      if ((request.flags & kOpSendAndSolicit) != 0) slot.flags |= kSolicited;
    }
    Publish(slot, partial_, last);
    if (last) partial_ = kNone;
    moved = true;
  }
  return moved;
}

bool ShmTransport::WritePieces(InitiatorRequest& request, std::size_t* budget) {
  bool moved = false;
  while (partial_ != kNone && *budget != 0) {
    const std::uint32_t chunk = std::min(request.list.length - partial_done_, kMaxChunk);
    if (!HasRoom(chunk)) break;
    Slot& slot = Claim();
    slot.kind = RecordKind::kWrite;
    slot.token = request.token;
    slot.address = request.remote_address + partial_done_;
    CopyIn(slot, partial_from_, chunk);
    partial_done_ += chunk;
    *budget -= std::min<std::size_t>(*budget, chunk);
    const bool last = partial_done_ == request.list.length;
    if (last) slot.flags |= kLastPiece;
    Publish(slot, partial_, last);
    write_in_ring_ = true;
    last_write_end_ = tx_head_;
    if (last) partial_ = kNone;
    moved = true;
  }
  return moved;
}

bool ShmTransport::StartRead(InitiatorRequest& request) {
  if (reads_head_ - reads_tail_ >= read_outbound_ || !HasRoom(0)) return false;
  const std::uint64_t position = queue_pair_.initiator().next;
  reads_[reads_head_ % reads_.size()] = {position, reads_head_, request.list.length, SgeCursor(request.list)};
  Slot& slot = Claim();
  slot.kind = RecordKind::kReadRequest;
  slot.token = request.token;
  slot.address = request.remote_address;
  slot.length = request.list.length;
  slot.place = reads_head_++;
  queue_pair_.Started(request);
  Publish(slot, position, false);
  QpCounters& counters = queue_pair_.counters();
  const std::uint32_t flying = reads_head_ - reads_tail_;
  counters.reads_in_flight.store(flying, std::memory_order_relaxed);
  if (flying > counters.reads_in_flight_max.load(std::memory_order_relaxed)) {
    counters.reads_in_flight_max.store(flying, std::memory_order_relaxed);
  }
  return true;
}

bool ShmTransport::Respond() {
  bool moved = false;
  std::size_t budget = kBudget;
  while (responses_tail_ != responses_head_ && budget != 0) {
    InboundRead& read = responses_[responses_tail_ % responses_.size()];
    const std::uint32_t chunk = std::min(read.remaining, kMaxChunk);
    if (!HasRoom(chunk)) break;
    SoftQueuePair::Refusal why;
    const std::byte* from = queue_pair_.RemoteTarget(read.stag, read.address, chunk, kAllowRemoteRead, &why);
    if (from == nullptr) {
      queue_pair_.EndConnection(EndCode::kRemoteAccess);
      return true;
    }
    Slot& slot = Claim();
    slot.kind = RecordKind::kReadResponse;
    slot.token = read.number;
    CopyIn(slot, from, chunk);
    read.address += chunk;
    read.remaining -= chunk;
    budget -= std::min<std::size_t>(budget, chunk);
    if (read.remaining == 0) {
      slot.flags |= kLastPiece;
      ++responses_tail_;
      QpCounters::Add(queue_pair_.counters().rx_reads, 1);
    }
    Publish(slot, kNone, false);
    moved = true;
  }
  runnable_ = runnable_ || budget == 0;
  return moved;
}

bool ShmTransport::CanGoByReference(const InitiatorRequest& request) {
  if (!share_ || request.is_inline) return false;
  for (std::uint32_t i = 0; i < request.list.count; ++i) {
    const Sge& sge = request.list.sges[i];
    if (sge.length == 0) continue;
    const auto region = queue_pair_.core().regions->Lookup(sge.local_token);
    if (!region || region->buffer == 0 || !ShareBuffer(region->buffer)) return false;
  }
  return true;
}

}  // namespace nd::provider::soft
