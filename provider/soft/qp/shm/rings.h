// SPDX-License-Identifier: Apache-2.0
// The segment and the doorbell as one side of a same-host connection sees them: the ring that it writes, the
// ring that it reads, and the flags by which sleepers are woken.
//
// Everything in the segment that the peer writes is untrusted. Positions of slots wrap at 2^32.
//
// Thread rule: under the lock of the queue pair. The peer process works on the same segment meanwhile.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <utility>

#include "base/memfd.h"
#include "base/os/word_sleep.h"
#include "base/unique_fd.h"
#include "provider/soft/qp/drive/ready_page.h"
#include "provider/soft/qp/queue_pair.h"
#include "provider/soft/qp/segment_layout.h"
#include "provider/soft/qp/sync.h"
#include "provider/soft/qp/transfer/partial_request.h"
#include "provider/soft/qp/work_queue.h"

namespace nd::provider::soft {

class ShmRings {
 public:
  // Side 0 called Connect.
  ShmRings(SoftQueuePair& queue_pair, Mapping segment, UniqueFd socket, int side);

  int socket() const { return socket_.get(); }
  int side() const { return side_; }
  // Null in a forked child.
  Segment* segment() { return mapping_ ? segment_ : nullptr; }
  // The segment stays mapped as long as the result. Nothing else of this object is used afterwards.
  Mapping TakeMapping() { return std::move(mapping_); }
  SideControl& mine() { return *mine_; }
  const SideControl& mine() const { return *mine_; }
  SideControl& theirs() const { return *theirs_; }

  // Tells the peer the restrictions of the queue pair.
  void PublishProtection();

  // --- the ring of this side
  // One more slot, and `bytes` in the data area unless they fit the slot.
  bool HasRoom(std::uint32_t bytes) {
    return (head_ - acknowledged_ <= published_mask_ || Widen()) &&
           (bytes <= kInlineSize || kDataSize - (data_head_ - data_tail_) >= bytes);
  }
  // The next slot, empty. The caller checks HasRoom(), fills the slot and publishes it.
  Slot& Claim() {
    Slot& slot = out().slots[head_ % kSlots];
    slot.flags = 0;
    slot.reserved = 0;
    slot.length = 0;
    return slot;
  }
  void CopyIn(Slot& slot, SgeCursor& from, std::uint32_t length);
  void CopyIn(Slot& slot, const std::byte* from, std::uint32_t length);
  // `request`: its position in the initiator queue, or kNoRequest. `completes`: it is complete when the peer
  // has consumed this slot.
  void Publish(Slot& slot, std::uint64_t request, bool completes) {
    if (queue_pair_.MemoryGone()) [[unlikely]]
      return Withhold(request);
    PublishedOf(head_) = {request, data_head_, completes};
    OrderThroughMappings::Publish(queue_pair_.number());
    slot.stamp.store(StampOf(head_), std::memory_order_release);
    ++head_;
    RingDoorbell();
  }
  // A record without content. Returns false when the ring is full.
  bool PublishControl(RecordKind kind);
  // The published slot belongs to a Send or a Write.
  void NoteRequest(bool write) {
    request_in_ring_ = true;
    last_request_end_ = head_;
    if (!write) return;
    write_in_ring_ = true;
    last_write_end_ = head_;
  }
  bool write_in_ring() const { return write_in_ring_; }
  // A Send or a Write. Immediate data behind a Write do not count.
  bool request_in_ring() const { return request_in_ring_; }
  // The position of the next slot.
  std::uint32_t head() const { return head_; }
  // The peer has consumed the slot.
  bool Passed(std::uint32_t position) const {
    return static_cast<std::int32_t>(acknowledged_ - position) > 0;
  }
  // The peer has not consumed everything.
  bool outstanding() const { return head_ != acknowledged_; }
  bool AcknowledgementWaits() const {
    return theirs().consumed.load(std::memory_order_acquire) != acknowledged_;
  }
  // Completes the requests whose slots the peer has consumed. Returns true when there were any, or when the
  // peer claims too many and the connection has ended.
  bool Acknowledge();
  // The request of the slot at `position`, if the peer has not consumed it; else kNoRequest.
  std::uint64_t RequestAt(std::uint32_t position) const {
    const bool waits = position - acknowledged_ < head_ - acknowledged_;
    return waits ? published_[position & published_mask_].request : kNoRequest;
  }
  // The requests were flushed: nothing completes them any more.
  void OnFlush() {
    for (std::uint32_t i = acknowledged_; i != head_; ++i) PublishedOf(i).request = kNoRequest;
  }

  // --- the ring of the peer
  // Null: nothing is published at this position.
  const Slot* PublishedAt(std::uint32_t position) const {
    const Slot& slot = in().slots[position % kSlots];
    if (slot.stamp.load(std::memory_order_acquire) != StampOf(position)) return nullptr;
    OrderThroughMappings::See(theirs().number);
    return &slot;
  }
  // The record at `position` is the next one.
  QuietWords QuietWordsAt(std::uint32_t position) const {
    return {&in().slots[position % kSlots].stamp, outstanding() ? &theirs().consumed : nullptr,
            &theirs().end_code, StampOf(position), acknowledged_};
  }
  // A record was published after the words were found.
  void WatchAcknowledgements(QuietWords* words) const {
    if (!outstanding()) return;
    words->consumed = &theirs().consumed;
    words->acknowledged = acknowledged_;
  }
  // `record`: a copy of a slot that was checked.
  void CopyOut(const Slot& record, std::uint32_t skip, std::byte* to, std::size_t length) const {
    if ((record.flags & kInlineBytes) != 0) {
      std::memcpy(to, record.bytes + skip, length);
      return;
    }
    const auto at = static_cast<std::uint32_t>((record.place + skip) % kDataSize);
    const std::size_t first = std::min<std::size_t>(length, kDataSize - at);
    std::memcpy(to, in().data + at, first);
    std::memcpy(to + first, in().data, length - first);
  }
  // Bytes in the data area. Null: they are in two parts.
  const std::byte* DataAt(std::uint64_t place, std::uint32_t length) const {
    const auto at = static_cast<std::uint32_t>(place % kDataSize);
    return length <= kDataSize - at ? in().data + at : nullptr;
  }
  // The slots before `position` were consumed.
  void Consumed(std::uint32_t position) {
    OrderThroughMappings::Publish(queue_pair_.number());
    mine().consumed.store(position, std::memory_order_release);
  }

  // --- sleeping and waking
  // The peer must be woken if it sleeps: by the next WakePeer().
  void RingDoorbell() { doorbell_due_ = Due::kRecord; }
  // The same if it waits for the end of its records.
  void RingForAcknowledgement() { doorbell_due_ = std::max(doorbell_due_, Due::kAcknowledgement); }
  void WakePeer() {
    if (doorbell_due_ == Due::kNothing) return;
    const Due due = std::exchange(doorbell_due_, Due::kNothing);
    if (ready_ != nullptr && due == Due::kRecord) [[unlikely]]
      ready_->store(++announced_, std::memory_order_release);
    if (fences_left_ != 0) [[unlikely]]
      FenceBeforeLook();
    std::atomic_signal_fence(std::memory_order_seq_cst);
    const std::uint32_t armed = theirs().armed.load(std::memory_order_relaxed);
    if (armed != 0 && (due == Due::kRecord || (armed & ~kByWord) != kArmedForRecords)) [[unlikely]]
      RingBell();
  }
  // Asks the peer to ring before this side sleeps. The caller looks at the ring again, after a barrier if the
  // result is true. `acknowledgements`: something waits for the end of records of this side.
  bool Arm(bool acknowledgements) {
    const bool can_ask_later = barrier_ || theirs().fences.load(std::memory_order_relaxed) != 0;
    armed_ = acknowledgements || !can_ask_later ? kArmed : kArmedForRecords;
    const std::uint32_t before = mine().armed.exchange(armed_, std::memory_order_seq_cst) & ~kByWord;
    by_word_ = false;
    if (PeerFences()) return false;
    const bool more = before == 0 || (before == kArmedForRecords && armed_ == kArmed);
    must_look_again_ = must_look_again_ || (barrier_ && more);
    return true;
  }
  // This side asked for more than before, and the barrier may have left out the peer. Somebody has to examine
  // the ring again, see kStoresSettle.
  bool must_look_again() const { return must_look_again_; }
  // The caller will.
  bool TakeLookAgain() { return std::exchange(must_look_again_, false); }
  // After Arm(false): from now on something waits for the end of records. Those that were published before
  // may have ended unnoticed; the others must be published after this.
  void AskForAcknowledgements();
  // A doorbell was read: the peer cleared the flag before it rang.
  void OnDoorbell() { armed_ = 0; }
  // Returns true when the flag was set and no doorbell was taken since.
  bool armed() const { return armed_ != 0 && !WordWoken(); }
  // The peer has rung, and nobody has taken the doorbell.
  bool DoorbellComes() const {
    return armed_ != 0 && !by_word_ && mine().armed.load(std::memory_order_relaxed) == 0;
  }
  // Behind Arm(): until LeaveWord() or the next Arm() the peer wakes the word of *slept_on, and sends no
  // byte. Returns false when it cannot be asked, or has rung.
  bool SleepOnWord(os::SleptOn* slept_on);
  // Nobody sleeps on the word any more: the peer sends bytes again. Returns true when it has woken the word,
  // which was a doorbell.
  bool LeaveWord();
  // If the peer has woken the word: a doorbell was taken.
  void TakeWordWake() {
    if (by_word_ && WordWoken()) LeaveWord();
  }
  bool armed_for_records() const { return armed_ == kArmedForRecords; }

  // From now on this side announces its records in `page` of the peer, if the peer gave it none before. May
  // be null.
  void AnnounceIn(std::shared_ptr<const Mapping> page, std::uint32_t place);

  // In a forked child, which must not act as a second end.
  void Abandon();

 private:
  // The contents of a published slot, for its acknowledgement.
  struct Published {
    std::uint64_t request;
    std::uint64_t data_end;
    bool completes;
  };

  enum class Due : std::uint8_t { kNothing, kAcknowledgement, kRecord };

  bool WordWoken() const { return by_word_ && mine().armed.load(std::memory_order_acquire) == 0; }
  Published& PublishedOf(std::uint32_t position) { return published_[position & published_mask_]; }
  // Makes room for more outstanding slots. Returns false when there are kSlots, or no memory; those that are
  // outstanding make room too.
  bool Widen();
  void RingBell();
  // A peer that this side had to wake sleeps soon again, and its barrier costs a system call. So after a
  // doorbell this side makes fences for a while, and says so.
  void StartFences();
  void FenceBeforeLook();
  // After `armed` was set. What the peer published before it said so is visible here; what it publishes from
  // now on is followed by its fence. Either that sees `armed`, or this side sees the publication.
  bool PeerFences() const {
    std::atomic_thread_fence(std::memory_order_seq_cst);
    return theirs().fences.load(std::memory_order_acquire) != 0;
  }
  // The bytes of a claimed slot are not those of the memory, which is gone.
  void Withhold(std::uint64_t request);
  Ring& out() { return *out_; }
  const Ring& in() const { return *in_; }

  SoftQueuePair& queue_pair_;
  Mapping mapping_;
  Segment* segment_;
  UniqueFd socket_;
  const int side_;
  SideControl *const mine_, *const theirs_;
  Ring* const out_;
  const Ring* const in_;
  const bool barrier_;  // The barrier of a sleeping peer covers this process.
  Due doorbell_due_ = Due::kNothing;
  // The counter of this connection in ready_page_, and its value. Null: the peer has not asked for
  // announcements.
  std::atomic<std::uint16_t>* ready_ = nullptr;
  std::uint16_t announced_ = 0;
  std::shared_ptr<const Mapping> ready_page_;
  std::uint32_t armed_ = 0;        // 0: a doorbell was taken.
  bool by_word_ = false;           // `armed` was set to kByWord too, and no doorbell comes.
  std::uint32_t fences_left_ = 0;  // Not 0: mine().fences is set.
  bool must_look_again_ = false;
  bool write_in_ring_ = false, request_in_ring_ = false;
  // Behind the last one in the ring.
  std::uint32_t last_write_end_ = 0, last_request_end_ = 0;
  std::uint32_t head_ = 0, acknowledged_ = 0;
  std::uint64_t data_head_ = 0, data_tail_ = 0;
  // Of the slots from acknowledged_ to head_. It grows with the most that were outstanding, because most
  // connections never have many: a small one shares its pages with other objects, and stays in the cache.
  std::unique_ptr<Published[]> published_;
  std::uint32_t published_mask_;
};

}  // namespace nd::provider::soft
