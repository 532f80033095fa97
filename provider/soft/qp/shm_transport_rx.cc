// SPDX-License-Identifier: Apache-2.0
// The consumer: every record is copied once, checked, and then acted upon.
#include <algorithm>
#include <cstring>

#include "provider/soft/qp/shm_transport.h"

namespace nd::provider::soft {
namespace {

constexpr int kRecordsPerRound = 64;

// Copies a slot that may change meanwhile.
void Snapshot(const Slot& from, Slot* to) {
  std::memcpy(static_cast<void*>(to), static_cast<const void*>(&from), sizeof(Slot));
  std::atomic_signal_fence(std::memory_order_seq_cst);
  asm volatile("" ::: "memory");
}

}  // namespace

bool ShmTransport::RecordWaits() const {
  return !held_ && in().slots[rx_head_ % kSlots].stamp.load(std::memory_order_acquire) == StampOf(rx_head_);
}

bool ShmTransport::RecordWaitsBehindHeldSend() const {
  const std::uint32_t at = rx_head_ + looked_;
  return held_ && looked_ < kSlots &&
         in().slots[at % kSlots].stamp.load(std::memory_order_acquire) == StampOf(at);
}

// The owner of the missing receive may wait for these answers before it posts one.
bool ShmTransport::LookBehindHeldSend() {
  for (; looked_ < kSlots && queue_pair_.live(); ++looked_) {
    const std::uint32_t at = rx_head_ + looked_;
    const Slot& slot = in().slots[at % kSlots];
    if (slot.stamp.load(std::memory_order_acquire) != StampOf(at)) return false;
    Slot record;
    Snapshot(slot, &record);
    if (record.kind == RecordKind::kGoodbye) return true;
    if (record.kind == RecordKind::kReadResponse && !(FitsItsPlace(record) && ConsumeReadResponse(record)))
      return false;
  }
  return false;
}

bool ShmTransport::Consume() {
  bool moved = false;
  const std::uint32_t looked = looked_;
  for (int i = 0; i < kRecordsPerRound && queue_pair_.live(); ++i) {
    const Slot& slot = in().slots[rx_head_ % kSlots];
    if (slot.stamp.load(std::memory_order_acquire) != StampOf(rx_head_)) break;
    Slot record;
    Snapshot(slot, &record);
    if (!ConsumeOne(record)) break;
    ++rx_head_;
    if (looked_ != 0) --looked_;
    moved = true;
  }
  if (moved) {
    mine().consumed.store(rx_head_, std::memory_order_release);
    doorbell_due_ = true;
  }
  return moved || looked_ > looked;
}

bool ShmTransport::FitsItsPlace(const Slot& record) {
  const bool carries = record.kind == RecordKind::kSend || record.kind == RecordKind::kWrite ||
                       record.kind == RecordKind::kReadResponse;
  if (carries && (record.flags & kByReference) == 0 &&
      record.length > ((record.flags & kInlineBytes) != 0 ? kInlineSize : kMaxChunk)) {
    Violation();
    return false;
  }
  return true;
}

bool ShmTransport::ConsumeOne(const Slot& record) {
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
      ReadSocket();
      return true;
    case RecordKind::kAbandonSend:
      in_message_ = swallow_ = false;
      return true;
    case RecordKind::kGoodbye:
      Acknowledge();  // Data that the peer consumed before this record is delivered.
      peer_goodbye_ = true;
      if (queue_pair_.live()) queue_pair_.OnPeerGoodbye();
      return true;
  }
  Violation();
  return false;
}

void ShmTransport::CopyOut(const Slot& record, std::uint32_t skip, std::byte* to, std::size_t length) const {
  if ((record.flags & kInlineBytes) != 0) {
    std::memcpy(to, record.bytes + skip, length);
    return;
  }
  const auto at = static_cast<std::uint32_t>((record.place + skip) % kDataSize);
  const std::size_t first = std::min<std::size_t>(length, kDataSize - at);
  std::memcpy(to, in().data + at, first);
  std::memcpy(to + first, in().data, length - first);
}

bool ShmTransport::ConsumeSend(const Slot& record) {
  if (swallow_ && in_message_) {
    if ((record.flags & kLastPiece) != 0) in_message_ = swallow_ = false;
    return true;
  }
  const bool drops = given_up_ && !in_message_;
  ReceiveRequest* receive = drops ? nullptr : queue_pair_.CurrentReceive();
  // After the goodbye of the peer none of its Sends is outstanding, because it flushed them.
  if (receive == nullptr && (drops || LookBehindHeldSend())) {
    given_up_ = true;
    held_ = false;
    held_until_ = Time::max();
    in_message_ = swallow_ = (record.flags & kLastPiece) == 0;
    return true;
  }
  if (!queue_pair_.live()) return false;
  if (receive == nullptr) {
    if (!held_) {
      held_ = true;
      held_until_ = Time(std::chrono::steady_clock::now()) + queue_pair_.core().tuning.rnr_timeout;
    }
    return false;
  }
  held_ = false;
  held_until_ = Time::max();
  if (!in_message_) {
    in_message_ = true;
    message_done_ = 0;
    message_sink_ = SgeCursor(receive->list);
  }
  const std::byte* reference = nullptr;
  if ((record.flags & kByReference) != 0) {
    const Mapping* mapping =
        record.address <= UINT32_MAX ? PeerMapping(static_cast<std::uint32_t>(record.address)) : nullptr;
    if (mapping == nullptr || record.place > mapping->size() ||
        record.length > mapping->size() - record.place) {
      Violation();
      return false;
    }
    reference = mapping->data() + record.place;
  }
  if (record.length > receive->list.length - message_done_) {
    queue_pair_.CompleteReceive(StatusCode::kBufferOverflow, 0, false);
    queue_pair_.EndConnection(EndCode::kTooLong);
    return false;
  }
  for (std::uint32_t done = 0; done < record.length;) {
    const Sge* sge = nullptr;
    const auto piece = message_sink_.Next(record.length - done, &sge);
    if (!queue_pair_.CheckLocal(*sge, kAllowLocalWrite)) {
      queue_pair_.CompleteReceive(StatusCode::kAccessViolation, 0, false);
      queue_pair_.EndConnection(EndCode::kLocal);
      return false;
    }
    if (reference != nullptr) {
      std::memcpy(piece.data(), reference + done, piece.size());
    } else {
      CopyOut(record, done, piece.data(), piece.size());
    }
    done += static_cast<std::uint32_t>(piece.size());
  }
  message_done_ += record.length;
  if ((record.flags & kLastPiece) == 0) return true;
  if ((record.flags & kInvalidates) != 0 && !queue_pair_.InvalidateByPeer(record.token)) {
    if (queue_pair_.live()) queue_pair_.EndConnection(EndCode::kRemoteAccess);
    return false;
  }
  in_message_ = false;
  queue_pair_.CompleteReceive(StatusCode::kSuccess, message_done_, (record.flags & kSolicited) != 0);
  return true;
}

bool ShmTransport::ConsumeWrite(const Slot& record) {
  if ((record.flags & kByReference) != 0) {
    Violation();
    return false;
  }
  SoftQueuePair::Refusal why;
  std::byte* to =
      queue_pair_.RemoteTarget(record.token, record.address, record.length, kAllowRemoteWrite, &why);
  if (to == nullptr) {
    queue_pair_.EndConnection(EndCode::kRemoteAccess);
    return false;
  }
  if (record.length != 0) CopyOut(record, 0, to, record.length);
  QpCounters& counters = queue_pair_.counters();
  QpCounters::Add(counters.rx_bytes, record.length);
  if ((record.flags & kLastPiece) != 0) {
    QpCounters::Add(counters.rx_writes, 1);
    MaybeShare(record.token);
  }
  return true;
}

bool ShmTransport::ConsumeReadRequest(const Slot& record) {
  SoftQueuePair::Refusal why;
  if (responses_head_ - responses_tail_ >= read_inbound_ || record.length > kMaxTransferLength) {
    Violation();
    return false;
  }
  if (queue_pair_.RemoteTarget(record.token, record.address, record.length, kAllowRemoteRead, &why) ==
      nullptr) {
    queue_pair_.EndConnection(EndCode::kRemoteAccess);
    return false;
  }
  responses_[responses_head_++ % responses_.size()] = {static_cast<std::uint32_t>(record.place), record.token,
                                                       record.length, record.address};
  MaybeShare(record.token);
  return true;
}

bool ShmTransport::ConsumeReadResponse(const Slot& record) {
  OutboundRead& read = reads_[reads_tail_ % reads_.size()];
  const bool last = (record.flags & kLastPiece) != 0;
  if (reads_tail_ == reads_head_ || (record.flags & kByReference) != 0 || record.token != read.number ||
      record.length > read.remaining || last != (record.length == read.remaining)) {
    Violation();
    return false;
  }
  read.remaining -= record.length;
  for (std::uint32_t done = 0; done < record.length && read.request != kNone;) {
    const Sge* sge = nullptr;
    const auto piece = read.sink.Next(record.length - done, &sge);
    if (!queue_pair_.CheckLocal(*sge, kAllowLocalWrite | kRdmaReadSink)) {
      queue_pair_.EndConnection(EndCode::kLocal);
      return false;
    }
    CopyOut(record, done, piece.data(), piece.size());
    done += static_cast<std::uint32_t>(piece.size());
  }
  QpCounters& counters = queue_pair_.counters();
  QpCounters::Add(counters.rx_bytes, record.length);
  if (!last) return true;
  ++reads_tail_;
  counters.reads_in_flight.store(reads_head_ - reads_tail_, std::memory_order_relaxed);
  if (read.request != kNone) queue_pair_.CompleteInitiator(queue_pair_.initiator().at(read.request));
  return true;
}

}  // namespace nd::provider::soft
