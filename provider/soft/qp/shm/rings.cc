// SPDX-License-Identifier: Apache-2.0
#include "provider/soft/qp/shm/rings.h"

#include <new>

#include "base/os/socket.h"
#include "provider/soft/qp/sync.h"

namespace nd::provider::soft {
namespace {

// A power of 2, as all sizes of the list of outstanding slots.
constexpr std::uint32_t kFirstOutstanding = 16;
constexpr std::uint32_t kLine = 64, kMostPrefetched = 4 * kLine;

// A doorbell costs as much as so many fences and more.
constexpr std::uint32_t kFencesAfterDoorbell = 32;

// Asks for the cache line of a store that comes later. The store then need not wait for it.
void PrefetchForStore(const std::byte& line) {
#if defined(__x86_64__)
  asm volatile("prefetchw %0"
               :
               : "m"(line));  // The builtin reads only, because not all processors have this.
#else
  __builtin_prefetch(&line, /*rw=*/1);
#endif
}

}  // namespace

ShmRings::ShmRings(SoftQueuePair& queue_pair, Mapping segment, UniqueFd socket, int side)
    : queue_pair_(queue_pair),
      mapping_(std::move(segment)),
      segment_(reinterpret_cast<Segment*>(mapping_.data())),
      socket_(std::move(socket)),
      side_(side),
      mine_(&segment_->side[side]),
      theirs_(&segment_->side[1 - side]),
      out_(&segment_->ring[side]),
      in_(&segment_->ring[1 - side]),
      barrier_(RegisterGlobalBarrier()),
      published_(std::make_unique_for_overwrite<Published[]>(kFirstOutstanding)),
      published_mask_(kFirstOutstanding - 1) {
  if (mine().armed.load(std::memory_order_relaxed) != 0) armed_ = kArmed;  // By the broker.
  if (!barrier_) StartFences();
  mine().wakes_words.store(1, std::memory_order_relaxed);
  mine().number.store(queue_pair.number(), std::memory_order_release);
  PublishProtection();
}

void ShmRings::PublishProtection() {
  const Protection& protection = queue_pair_.protection();
  mine().domain.store(protection.domain, std::memory_order_relaxed);
  mine().denied.store(~protection.remote_access, std::memory_order_release);
}

void ShmRings::CopyIn(Slot& slot, const std::byte* from, std::uint32_t length) {
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
    // The peer has read those of the next message, which is perhaps as long, a round of the ring ago.
    for (std::uint32_t ahead = 0; ahead < std::min(length, kMostPrefetched); ahead += kLine)
      PrefetchForStore(out().data[(data_head_ + ahead) % kDataSize]);
  }
  slot.length += length;
}

void ShmRings::CopyIn(Slot& slot, SgeCursor& from, std::uint32_t length) {
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

bool ShmRings::Widen() {
  const std::uint32_t size = 2 * (published_mask_ + 1);
  if (size > kSlots) return false;
  std::unique_ptr<Published[]> wider(new (std::nothrow) Published[size]);
  if (!wider) return false;
  for (std::uint32_t i = acknowledged_; i != head_; ++i) wider[i & (size - 1)] = PublishedOf(i);
  published_ = std::move(wider);
  published_mask_ = size - 1;
  return true;
}

void ShmRings::Withhold(std::uint64_t request) {
  if (request != kNoRequest) queue_pair_.WithholdRequest(request);
}

bool ShmRings::PublishControl(RecordKind kind) {
  if (!HasRoom(0)) return false;
  Slot& slot = Claim();
  slot.kind = kind;
  Publish(slot, kNoRequest, false);
  return true;
}

bool ShmRings::Acknowledge() {
  const std::uint32_t consumed = theirs().consumed.load(std::memory_order_acquire);
  OrderThroughMappings::See(theirs().number);
  const std::uint32_t passed = consumed - acknowledged_;
  if (passed == 0) return false;
  if (passed > head_ - acknowledged_) {
    queue_pair_.EndConnection(EndCode::kProtocol);
    return true;
  }
  const bool gone = queue_pair_.MemoryGone();
  for (std::uint32_t i = 0; i < passed; ++i) {
    const Published& slot = PublishedOf(acknowledged_++);
    data_tail_ = slot.data_end;
    if (!slot.completes || slot.request == kNoRequest) continue;
    if (!gone) [[likely]] {
      queue_pair_.Confirm(slot.request);
      continue;
    }
    queue_pair_.CompleteInitiator(queue_pair_.initiator().at(slot.request));
    if (!queue_pair_.live()) break;
  }
  acknowledged_ = consumed;
  if (!gone) queue_pair_.RetireConfirmed();
  const auto passed_by = [this](std::uint32_t end) {
    return static_cast<std::int32_t>(acknowledged_ - end) >= 0;
  };
  write_in_ring_ = write_in_ring_ && !passed_by(last_write_end_);
  request_in_ring_ = request_in_ring_ && !passed_by(last_request_end_);
  return true;
}

void ShmRings::AskForAcknowledgements() {
  armed_ = kArmed;
  const std::uint32_t by_word = by_word_ ? kByWord : 0;
  std::uint32_t expected = kArmedForRecords | by_word;
  // It stays 0 if the peer is ringing.
  mine().armed.compare_exchange_strong(expected, kArmed | by_word, std::memory_order_seq_cst);
  const bool fences = PeerFences();
  must_look_again_ = must_look_again_ || !fences;
  if (!outstanding()) return;
  // Either the peer sees the new value when it has consumed the next slot, or this side sees what it
  // consumed.
  if (!fences && !GlobalBarrier()) armed_ = 0;  // Somebody arms again.
  if (AcknowledgementWaits()) Acknowledge();
}

bool ShmRings::SleepOnWord(os::SleptOn* slept_on) {
  if (armed_ == 0 || by_word_ || theirs().wakes_words.load(std::memory_order_relaxed) == 0) return false;
  std::uint32_t expected = armed_;
  by_word_ = mine().armed.compare_exchange_strong(expected, armed_ | kByWord, std::memory_order_seq_cst);
  *slept_on = {&mine().armed, armed_ | kByWord, true};
  return by_word_;
}

bool ShmRings::LeaveWord() {
  if (!std::exchange(by_word_, false)) return false;
  std::uint32_t expected = armed_ | kByWord;
  if (mine().armed.compare_exchange_strong(expected, armed_, std::memory_order_seq_cst)) return false;
  OnDoorbell();
  return true;
}

void ShmRings::RingBell() {
  const std::uint32_t armed = theirs().armed.exchange(0, std::memory_order_acq_rel);
  if (armed == 0) return;
  if ((armed & kByWord) != 0) {
    os::WakeWord(theirs().armed, true);
  } else {
    // A full socket contains doorbells already; a broken one is noticed at the next read.
    os::Send(socket_.get(), &kDoorbell, 1);
  }
  StartFences();
}

void ShmRings::StartFences() {
  fences_left_ = kFencesAfterDoorbell;
  mine().fences.store(1, std::memory_order_release);
}

void ShmRings::FenceBeforeLook() {
  // The end is visible before this side looks without a fence for the first time.
  if (barrier_ && --fences_left_ == 0) mine().fences.store(0, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_seq_cst);
}

void ShmRings::AnnounceIn(std::shared_ptr<const Mapping> page, std::uint32_t place) {
  if (ready_ != nullptr || page == nullptr || place >= ReadyCounters::kPlaces) return;
  ready_page_ = std::move(page);
  ready_ = &reinterpret_cast<ReadyCounters*>(ready_page_->data())->at[place];
  announced_ = ready_->load(std::memory_order_relaxed);  // Another connection had the place before.
  // A peer that sees this sees the records that were not announced.
  mine().announces.store(1, std::memory_order_release);
}

void ShmRings::Abandon() {
  // In a forked child the segment is not mapped and the descriptor is closed.
  (void)socket_.release();
  [[maybe_unused]] auto* leaked = new Mapping(std::move(mapping_));
}

}  // namespace nd::provider::soft
