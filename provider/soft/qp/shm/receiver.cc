// SPDX-License-Identifier: Apache-2.0
#include "provider/soft/qp/shm/receiver.h"

#include <cstring>

#include "provider/soft/qp/transfer/placement.h"

namespace nd::provider::soft {
namespace {

constexpr std::uint32_t kRecordsPerRound = 64;

// Reads a field of a slot that may change meanwhile.
template <typename Field>
Field Once(const Field& field) {
  return *static_cast<const volatile Field*>(&field);
}

// Copies a slot that may change meanwhile.
void Snapshot(const Slot& from, Slot* to) {
  std::memcpy(static_cast<void*>(to), static_cast<const void*>(&from), sizeof(Slot));
  std::atomic_signal_fence(std::memory_order_seq_cst);
  asm volatile("" ::: "memory");
}

}  // namespace

bool ShmReceiver::Violation() {
  state_.queue_pair.EndConnection(EndCode::kProtocol);
  return false;
}

bool ShmReceiver::RecordWaits() const {
  return !arriving_.held() && state_.rings.PublishedAt(head_) != nullptr;
}

bool ShmReceiver::RecordWaitsBehindHeldSend() const {
  return arriving_.held() && looked_ < kSlots && state_.rings.PublishedAt(head_ + looked_) != nullptr;
}

// The owner of the missing receive may wait for these answers before it posts one.
bool ShmReceiver::LookBehindHeldSend() {
  for (; looked_ < kSlots && state_.queue_pair.live(); ++looked_) {
    const Slot* slot = state_.rings.PublishedAt(head_ + looked_);
    if (slot == nullptr) return false;
    Slot record;
    Snapshot(*slot, &record);
    if (record.kind == RecordKind::kGoodbye) return true;
    if (record.kind == RecordKind::kReadResponse && !(FitsItsPlace(record) && ConsumeReadResponse(record)))
      return false;
  }
  return false;
}

bool ShmReceiver::ConsumeWhole(bool* others) {
  const std::uint32_t from = head_;
  const Slot* slot;
  while ((slot = state_.rings.PublishedAt(head_)) != nullptr) [[likely]] {
      if (head_ - from == kRecordsPerRound || !ConsumeAtOnce(*slot)) [[unlikely]]
        break;
      Pass();
    }
  *others = slot != nullptr;
  if (head_ == from) [[unlikely]]
    return false;
  state_.rings.Consumed(head_);
  state_.rings.RingForAcknowledgement();
  return true;
}

bool ShmReceiver::Consume() {
  bool moved = false;
  const std::uint32_t looked = looked_;
  for (std::uint32_t i = 0; i < kRecordsPerRound && state_.queue_pair.live(); ++i) {
    const Slot* slot = state_.rings.PublishedAt(head_);
    if (slot == nullptr) break;
    if (!ConsumeAtOnce(*slot)) {
      Slot record;
      Snapshot(*slot, &record);
      if (!ConsumeOne(record)) break;
    }
    Pass();
    moved = true;
  }
  if (moved) {
    state_.rings.Consumed(head_);
    state_.rings.RingForAcknowledgement();
  }
  return moved || looked_ > looked;
}

[[gnu::always_inline]] inline bool ShmReceiver::ConsumeAtOnce(const Slot& slot) {
  const unsigned flags = Once(slot.flags);
  const unsigned form = flags & ~(kLastPiece | kSolicited);
  const std::uint32_t length = Once(slot.length);
  if (Once(slot.kind) != RecordKind::kSend || (flags & kLastPiece) == 0 || !arriving_.idle()) [[unlikely]]
    return false;
  const bool solicited = (flags & kSolicited) != 0;
  const std::byte* from = slot.bytes;
  if (form == 0) {
    if (length > kMaxChunk) return false;
    from = state_.rings.DataAt(Once(slot.place), length);
  } else if (form == kByReference) {
    from = PeerBytes(Once(slot.address), Once(slot.place), length);
  } else if (form != kInlineBytes || length > kInlineSize) [[unlikely]] {
    return false;
  }
  if (from == nullptr) [[unlikely]]
    return false;
  return state_.queue_pair.DeliverWhole(from, length, solicited);
}

// Memory of the peer to which a record refers; null when the peer has not given it.
const std::byte* ShmReceiver::PeerBytes(std::uint64_t buffer, std::uint64_t place, std::uint32_t length) {
  const Mapping* const mapping =
      buffer <= UINT32_MAX ? state_.memory.PeerBuffer(static_cast<std::uint32_t>(buffer), false) : nullptr;
  if (mapping == nullptr || place > mapping->size() || length > mapping->size() - place) return nullptr;
  return mapping->data() + place;
}

bool ShmReceiver::FitsItsPlace(const Slot& record) {
  const bool carries = record.kind == RecordKind::kSend || record.kind == RecordKind::kWrite ||
                       record.kind == RecordKind::kReadResponse;
  if (carries && (record.flags & kByReference) == 0 &&
      record.length > ((record.flags & kInlineBytes) != 0 ? kInlineSize : kMaxChunk)) {
    return Violation();
  }
  return true;
}

bool ShmReceiver::ConsumeOne(const Slot& record) {
  if (!FitsItsPlace(record)) return false;
  switch (record.kind) {
    case RecordKind::kSend:
      return ConsumeSend(record);
    case RecordKind::kWrite:
      return ConsumeWrite(record);
    case RecordKind::kReadRequest:
      return ConsumeReadRequest(record);
    case RecordKind::kReadResponse:
      return looked_ != 0 || ConsumeReadResponse(record);
    case RecordKind::kDescriptors:
      state_.memory.ReadSocket(false);
      return true;
    case RecordKind::kAbandonSend:
      arriving_.OnAbandoned();
      return true;
    case RecordKind::kGoodbye:
      // Everything that the peer consumed before it wrote this record was delivered to it.
      state_.rings.Acknowledge();
      peer_goodbye_ = true;
      if (state_.queue_pair.live()) state_.queue_pair.OnPeerGoodbye();
      return true;
    case RecordKind::kImmediate:
      return ConsumeImmediate(record);
    case RecordKind::kFetchAdd:
    case RecordKind::kCompareSwap:
      return ConsumeAtomic(record);
  }
  return Violation();
}

bool ShmReceiver::ConsumeSend(const Slot& record) {
  const bool last = (record.flags & kLastPiece) != 0;
  if (arriving_.Skip(record.length, last)) return true;
  const bool drops = arriving_.MustDrop();
  ReceiveRequest* receive = drops ? nullptr : arriving_.Find();
  // After the goodbye of the peer none of its Sends is outstanding, because it flushed them.
  if (receive == nullptr && (drops || LookBehindHeldSend())) {
    arriving_.GiveUp();
    arriving_.Drop(record.length, last);
    return true;
  }
  if (!state_.queue_pair.live()) return false;
  if (receive == nullptr) {
    arriving_.Hold();
    return false;
  }
  arriving_.Open(*receive);
  const std::byte* reference = nullptr;
  if ((record.flags & kByReference) != 0) {
    reference = PeerBytes(record.address, record.place, record.length);
    if (reference == nullptr) return Violation();
  }
  if (!arriving_.Fits(*receive, record.length)) {
    arriving_.RefuseLength();
    return false;
  }
  const auto copy = [&](std::byte* to, std::uint32_t skip, std::size_t size) {
    if (reference != nullptr) {
      std::memcpy(to, reference + skip, size);
    } else {
      state_.rings.CopyOut(record, skip, to, size);
    }
  };
  if (!arriving_.Place(record.length, copy)) {
    arriving_.RefuseMemory();
    return false;
  }
  if (!last) return true;
  if ((record.flags & kInvalidates) != 0 && !state_.queue_pair.InvalidateByPeer(record.token)) {
    if (state_.queue_pair.live()) state_.queue_pair.EndConnection(EndCode::kRemoteAccess);
    return false;
  }
  const bool immediate = (record.flags & kHasImmediate) != 0;
  const bool invalidates = (record.flags & kInvalidates) != 0;
  if (immediate && (!state_.extensions || invalidates)) return Violation();
  const std::uint8_t flags = immediate ? kCompletionImmediate : invalidates ? kCompletionInvalidated : 0;
  arriving_.Complete((record.flags & kSolicited) != 0, flags, flags != 0 ? record.token : 0);
  return true;
}

bool ShmReceiver::ConsumeImmediate(const Slot& record) {
  if (!state_.extensions || arriving_.incomplete() || record.length > kMaxTransferLength) return Violation();
  const bool drops = arriving_.MustDrop();
  const ReceiveRequest* receive = drops ? nullptr : arriving_.Find();
  // As for a Send.
  if (receive == nullptr && (drops || LookBehindHeldSend())) {
    arriving_.GiveUp();
    return true;
  }
  if (!state_.queue_pair.live()) return false;
  if (receive == nullptr) {
    arriving_.Hold();
    return false;
  }
  arriving_.CompleteWrite(record.length, record.token, (record.flags & kSolicited) != 0);
  return true;
}

bool ShmReceiver::ConsumeWrite(const Slot& record) {
  if ((record.flags & kByReference) != 0) return Violation();
  const bool last = (record.flags & kLastPiece) != 0;
  const auto copy = [&](std::byte* to, std::uint32_t skip, std::size_t size) {
    state_.rings.CopyOut(record, skip, to, size);
  };
  if (PlaceWrite(state_.queue_pair, record.token, record.address, record.length, last, copy) !=
      SoftQueuePair::Refusal::kNone) {
    state_.queue_pair.EndConnection(EndCode::kRemoteAccess);
    return false;
  }
  if (last) state_.memory.ShareRegistration(record.token);
  return true;
}

bool ShmReceiver::ConsumeReadRequest(const Slot& record) {
  if (state_.responses.full() || record.length > kMaxTransferLength) return Violation();
  if (ResponseSource(state_.queue_pair, record.token, record.address, record.length) == nullptr) return false;
  state_.responses.Push({static_cast<std::uint32_t>(record.place),
                         record.token,
                         record.length,
                         record.address,
                         RecordKind::kReadRequest,
                         {}});
  state_.memory.ShareRegistration(record.token);
  return true;
}

// The operation itself is done with its answer, in the order of the Reads.
bool ShmReceiver::ConsumeAtomic(const Slot& record) {
  if (!state_.extensions || state_.responses.full()) return Violation();
  if (AtomicTarget(state_.queue_pair, record.token, record.address) == nullptr) return false;
  Operands operands;
  std::memcpy(&operands.value, record.bytes, kAtomicSize);
  std::memcpy(&operands.compare, record.bytes + kAtomicSize, kAtomicSize);
  state_.responses.Push({static_cast<std::uint32_t>(record.place), record.token, kAtomicSize, record.address,
                         record.kind, operands});
  state_.memory.ShareRegistration(record.token);
  return true;
}

bool ShmReceiver::ConsumeReadResponse(const Slot& record) {
  const bool last = (record.flags & kLastPiece) != 0;
  if (state_.reads.empty() || (record.flags & kByReference) != 0 ||
      record.token != state_.reads.oldest().number || !state_.reads.oldest().Expects(record.length, last)) {
    return Violation();
  }
  const auto copy = [&](std::byte* to, std::uint32_t skip, std::size_t size) {
    state_.rings.CopyOut(record, skip, to, size);
  };
  if (!state_.reads.Place(record.length, copy)) return false;
  if (!last) return true;
  const ShmRead& read = state_.reads.Finish();
  if (read.request != kNoRequest) {
    state_.queue_pair.CompleteInitiator(state_.queue_pair.initiator().at(read.request));
  }
  return true;
}

}  // namespace nd::provider::soft
