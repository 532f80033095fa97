// SPDX-License-Identifier: Apache-2.0
// The life of a shared-memory connection: set-up, the round that moves data, sleeping and the end.
#include "provider/soft/qp/shm_transport.h"

#include <algorithm>

#include "base/os/socket.h"

namespace nd::provider::soft {
namespace {

constexpr Duration kNoBarrierRecheck = std::chrono::milliseconds(1);

Status Ended(const std::string& side, std::uint32_t code) {
  constexpr std::string_view kWhy[] = {
      // By EndCode.
      "it dropped the connection",       "the other named memory that it may not touch",
      "a Send found no receive in time", "a Send was longer than its receive",
      "the other broke the protocol",    "its own request failed, or it let go",
  };
  // The peer wrote it.
  const std::string_view why = code < std::size(kWhy) ? kWhy[code] : "for a reason that does not exist";
  return {StatusCode::kConnectionAborted, side + " ended it: " + std::string(why) + ".", Detail::kProtocol};
}

}  // namespace

Result<std::unique_ptr<Transport>> MakeShmTransport(SoftQueuePair& queue_pair, HandOff& hand_off) {
  const HandOffRecord& record = hand_off.record;
  if (hand_off.fds.size() != 2 || record.segment_size != kSegmentSize) {
    return Status(StatusCode::kInvalidParameter,
                  "a shared connection is a segment of the known size and a socket");
  }
  if (record.read_inbound > kMaxReadLimit || record.read_outbound > kMaxReadLimit) {
    return Status(StatusCode::kInvalidParameter, "the read limits are above the adapter's");
  }
  auto size = CheckSealedMemfd(hand_off.fds[0].get(), kSegmentSize);
  if (!size.ok()) return size.status();
  if (os::KindOf(hand_off.fds[1].get()) != os::SocketKind::kMessages) {
    return Status(StatusCode::kInvalidParameter, "the doorbell is not a socket of messages");
  }
  auto mapping = Mapping::Map(hand_off.fds[0].get(), kSegmentSize, true);
  if (!mapping.ok()) return mapping.status();
  // A forked child must not act as a second end.
  mapping->KeepFromChildren();
  hand_off.fds[0].reset();
  return std::unique_ptr<Transport>(std::make_unique<ShmTransport>(
      queue_pair, record, std::move(mapping).value(), std::move(hand_off.fds[1])));
}

ShmTransport::ShmTransport(SoftQueuePair& queue_pair, const HandOffRecord& record, Mapping segment,
                           UniqueFd socket)
    : queue_pair_(queue_pair),
      mapping_(std::move(segment)),
      segment_(reinterpret_cast<Segment*>(mapping_.data())),
      socket_(std::move(socket)),
      side_((record.flags & kHandOffActive) != 0 ? 0 : 1),
      share_((record.flags & kHandOffShareMemory) != 0 && queue_pair.core().tuning.direct_access),
      read_inbound_(record.read_inbound),
      read_outbound_(record.read_outbound),
      barrier_(RegisterGlobalBarrier()),
      published_(kSlots),
      reads_(std::max<std::uint32_t>(read_outbound_, 1)),
      responses_(std::max<std::uint32_t>(read_inbound_, 1)) {
  peer_buffers_.reserve(16);
  mine().number.store(queue_pair.number(), std::memory_order_release);
  if (share_) ShareTable();
}

ShmTransport::~ShmTransport() = default;

void ShmTransport::Abandon() {
  // In a forked child the segment is not mapped and the descriptor is closed.
  (void)socket_.release();
  [[maybe_unused]] auto* leaked = new Mapping(std::move(mapping_));
}

bool ShmTransport::Progress(bool look_at_fd) {
  bool moved = false;
  if (look_at_fd) ReadSocket();
  if (queue_pair_.live()) {
    if (tx_head_ != tx_acked_) moved |= Acknowledge();
    if (queue_pair_.live()) moved |= Consume();
    if (queue_pair_.live()) moved |= TransmitOne();
  } else if (tx_head_ != tx_acked_) {
    Acknowledge();
  }
  if (goodbye_wanted_ && !goodbye_published_) {
    const bool more = queue_pair_.live() && RecordWaits() && rx_head_ - goodbye_from_ < kSlots;
    if (!queue_pair_.live() || (!more && responses_tail_ == responses_head_)) PublishGoodbye();
    runnable_ = runnable_ || more;
  }
  WakePeer();
  if (queue_pair_.live()) CheckEnd();
  return moved;
}

void ShmTransport::Transmit() {
  TransmitOne();
  WakePeer();
}

bool ShmTransport::Arm() {
  mine().armed.store(1, std::memory_order_seq_cst);
  armed_ = true;
  return true;
}

Interest ShmTransport::Settle(bool barrier) {
  // Either the next publication of the peer sees the flag, or this side sees the publication now.
  rearm_at_ = barrier ? Time::max() : Time(std::chrono::steady_clock::now()) + kNoBarrierRecheck;
  Interest now = interest();
  now.runnable = now.runnable || RecordWaits() || RecordWaitsBehindHeldSend() ||
                 theirs().consumed.load(std::memory_order_acquire) != tx_acked_ ||
                 theirs().end_code.load(std::memory_order_acquire) != 0;
  return now;
}

void ShmTransport::WakePeer() {
  if (!doorbell_due_) return;
  doorbell_due_ = false;
  // The barrier of the sleeper covers this process, if it is registered.
  if (!barrier_) std::atomic_thread_fence(std::memory_order_seq_cst);
  std::atomic_signal_fence(std::memory_order_seq_cst);
  if (theirs().armed.load(std::memory_order_relaxed) == 0) return;
  if (theirs().armed.exchange(0, std::memory_order_acq_rel) == 0) return;
  const char bell = 1;
  // A full socket contains doorbells already; a broken one is noticed at the next read.
  os::Send(socket_.get(), &bell, 1);
}

Interest ShmTransport::interest() const {
  return {.fd = socket_.get(),
          .read = true,
          .runnable = runnable_ || !armed_,
          .deadline = std::min(held_until_, rearm_at_)};
}

void ShmTransport::OnDeadline(Time now) {
  if (now >= rearm_at_) rearm_at_ = Time::max();
  if (now < held_until_) return;
  held_until_ = Time::max();
  if (held_ && queue_pair_.live()) queue_pair_.EndConnection(EndCode::kNoReceive);
}

void ShmTransport::SayGoodbye() {
  goodbye_wanted_ = true;
  goodbye_from_ = rx_head_;
  if (!queue_pair_.live() || peer_goodbye_) {
    PublishGoodbye();
    WakePeer();
  } else {
    runnable_ = true;  // The round that reads the last data reports it.
  }
}

void ShmTransport::PublishGoodbye() {
  if (goodbye_published_) return;
  // A reader of the goodbye sees this too, so messages consumed before it are not lost.
  mine().consumed.store(rx_head_, std::memory_order_release);
  goodbye_published_ = PublishControl(RecordKind::kGoodbye);
}

void ShmTransport::SayTerminate(EndCode code) {
  cause_ = Ended("This side", static_cast<std::uint32_t>(code));
  mine().consumed.store(rx_head_, std::memory_order_release);
  mine().end_position.store(rx_head_, std::memory_order_relaxed);
  mine().end_code.store(static_cast<std::uint32_t>(code), std::memory_order_release);
  doorbell_due_ = true;
  WakePeer();
}

void ShmTransport::Violation() {
  queue_pair_.EndConnection(EndCode::kProtocol);
}

void ShmTransport::Lost(DisconnectReason reason) {
  queue_pair_.OnTransportLost(reason);
}

void ShmTransport::CheckEnd() {
  const std::uint32_t code = theirs().end_code.load(std::memory_order_acquire);
  if (code == 0 && !hung_up_) return;
  // Acknowledgements of the peer before its end still count.
  Acknowledge();
  for (int i = 0; i < 64 && queue_pair_.live() && Consume(); ++i) {
  }
  if (!queue_pair_.live()) return;
  if (code == 0) return Lost(DisconnectReason::kPeerProcessDied);
  cause_ = Ended("The other side", code);
  const std::uint32_t position = theirs().end_position.load(std::memory_order_relaxed);
  StatusCode status = StatusCode::kRemoteError;
  if (code == static_cast<std::uint32_t>(EndCode::kRemoteAccess)) status = StatusCode::kAccessViolation;
  if (code == static_cast<std::uint32_t>(EndCode::kNoReceive)) status = StatusCode::kIoTimeout;
  const bool names_one = position - tx_acked_ < tx_head_ - tx_acked_;
  const std::uint64_t request = names_one ? published_[position % kSlots].request : kNone;
  if (code == static_cast<std::uint32_t>(EndCode::kLocal) || request == kNone)
    return Lost(DisconnectReason::kUnknown);
  queue_pair_.FailAt(request, status);
}

bool ShmTransport::PeerTouches(std::uint32_t stag) {
  if (!share_) return false;
  // Orders the invalidation of the STag before the read of the hazard of the peer; the peer does the reverse.
  std::atomic_thread_fence(std::memory_order_seq_cst);
  return theirs().hazard.load(std::memory_order_acquire) == stag;
}

void ShmTransport::OnFlushInitiator() {
  for (Published& slot : published_) slot.request = kNone;
  for (std::uint32_t i = reads_tail_; i != reads_head_; ++i) reads_[i % reads_.size()].request = kNone;
  if (partial_ != kNone && partial_path_ != Path::kDirect && partial_done_ != 0 &&
      queue_pair_.initiator().at(partial_).op != Op::kWrite) {
    abandon_wanted_ = true;  // The receiver fills the same receive again from its start.
  }
  partial_ = kNone;
}

void ShmTransport::OnFlushReceive() {
  if (in_message_) swallow_ = true;
}

}  // namespace nd::provider::soft
