// SPDX-License-Identifier: Apache-2.0
// The life of a shared-memory connection: set-up, the round that moves data, sleeping and the end.
#include "provider/soft/qp/shm/shm_transport.h"

#include <algorithm>
#include <string>

#include "base/os/socket.h"
#include "provider/soft/transports.h"

namespace nd::provider::soft {
namespace {

Status Ended(const std::string& side, std::uint32_t code) {
  constexpr std::string_view kWhy[] = {
      // By EndCode.
      "it dropped the connection",       "the other named memory that it may not touch",
      "a Send found no receive in time", "a Send was longer than its receive",
      "the other broke the protocol",    "its own request failed, or it let go",
      "the memory of a receive failed",
  };
  // The peer wrote it.
  const std::string_view why = code < std::size(kWhy) ? kWhy[code] : "for a reason that does not exist";
  return {StatusCode::kConnectionAborted, side + " ended it: " + std::string(why) + ".", Detail::kProtocol};
}

}  // namespace

Result<std::unique_ptr<Transport>> MakeShmTransport(SoftQueuePair& queue_pair, HandOff& hand_off) {
  const HandOffRecord& record = hand_off.record;
  if (hand_off.fds.size() != 2 || PayloadOf<SharedPayload>(record).segment_size != kSegmentSize) {
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
    : state_(queue_pair, record, std::move(segment), std::move(socket)), receiver_(state_), sender_(state_) {}

void ShmTransport::Close() {
  if (state_.rings.segment() == nullptr) return;
  state_.rings.mine().closed.store(1, std::memory_order_relaxed);
  // As in PeerTouches().
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (state_.rings.theirs().hazard.load(std::memory_order_acquire) == 0 || !state_.peer_process.Lives())
    return;
  const PeerIdentity identity = state_.peer_process.identity();
  state_.queue_pair.core().former_peers.Keep({state_.rings.TakeMapping(), 1 - state_.rings.side(), identity});
}

std::shared_ptr<void> ShmTransport::TakeMemory() {
  Close();
  return std::make_shared<Mapping>(state_.rings.TakeMapping());
}

bool ShmTransport::Progress(bool look_at_fd) {
  SoftQueuePair& queue_pair = state_.queue_pair;
  bool moved = false;
  state_.rings.TakeWordWake();
  if (look_at_fd) state_.memory.ReadSocket(true);
  ArmForMore();
  if (queue_pair.live()) {
    if (state_.rings.outstanding() && state_.rings.AcknowledgementWaits())
      moved |= state_.rings.Acknowledge();
    if (state_.pace.timing() && state_.rings.Passed(state_.pace.position())) {
      state_.pace.Leave(std::chrono::steady_clock::now());
    }
    if (queue_pair.live() && receiver_.HasRecord()) moved |= receiver_.Consume();
    if (queue_pair.live() && state_.memory.owes_table() && !state_.goodbye_wanted) state_.memory.ShowTable();
    state_.runnable = false;
    if (queue_pair.live() && sender_.HasWork()) moved |= sender_.Transmit();
  } else if (state_.rings.outstanding()) {
    state_.rings.Acknowledge();
  }
  if (state_.goodbye_wanted && !goodbye_published_) ContinueGoodbye();
  state_.rings.WakePeer();
  if (queue_pair.live()) {
    const std::uint32_t code = state_.rings.theirs().end_code.load(std::memory_order_acquire);
    if (code != 0 || state_.memory.hung_up()) OnPeerEnd(code);
  }
  return moved;
}

bool ShmTransport::AwaitsAcknowledgements() const {
  const SoftQueuePair& queue_pair = state_.queue_pair;
  return !queue_pair.live() || queue_pair.AwaitsReport() || sender_.busy() || !state_.responses.empty() ||
         state_.goodbye_wanted || state_.pace.timing();
}

void ShmTransport::ArmForMore() {
  if (state_.rings.armed_for_records() && AwaitsAcknowledgements()) [[unlikely]]
    state_.rings.AskForAcknowledgements();
}

void ShmTransport::Transmit() {
  ArmForMore();
  sender_.Transmit();
  state_.rings.WakePeer();
}

bool ShmTransport::StartAtOnce(QuietWords* words) {
  ArmForMore();
  if (!sender_.StartAtOnce()) return false;
  state_.rings.WakePeer();
  if (words->stamp != nullptr) state_.rings.WatchAcknowledgements(words);
  return true;
}

bool ShmTransport::ProgressQuiet(QuietWords* words) {
  ShmRings& rings = state_.rings;
  words->stamp = nullptr;
  ArmForMore();
  if (rings.theirs().end_code.load(std::memory_order_acquire) != 0 || state_.pace.timing()) return false;
  bool moved = words->consumed != nullptr && rings.AcknowledgementWaits() && rings.Acknowledge();
  if (!state_.queue_pair.live()) return moved;
  bool others = false;
  moved |= receiver_.ConsumeWhole(&others);
  rings.WakePeer();
  // A round takes the others now. When each request completes in its post, no later poll makes a round.
  if (others) return false;
  *words = rings.QuietWordsAt(receiver_.position());
  return moved;
}

bool ShmTransport::Arm() {
  state_.rings.TakeWordWake();
  // It would wake this side for a record that a poll has taken.
  if (state_.rings.DoorbellComes()) state_.memory.ReadSocket(true);
  return state_.rings.Arm(AwaitsAcknowledgements());
}

Interest ShmTransport::Settle(bool ordered, bool keeps_time) {
  // Either the next publication of the peer sees the flag, or this side sees the publication now, or at the
  // second look.
  rearm_at_ = ordered ? Time::max() : Time(std::chrono::steady_clock::now()) + kStoresSettle;
  if (keeps_time && state_.rings.TakeLookAgain()) {
    look_again_at_ = Time(std::chrono::steady_clock::now()) + kStoresSettle;
  } else if (look_again_at_ != Time::max() && Time(std::chrono::steady_clock::now()) >= look_again_at_) {
    look_again_at_ = Time::max();  // This is it.
  }
  Interest now = Remaining();
  if (keeps_time) now.deadline = std::min(now.deadline, look_again_at_);
  now.runnable = now.runnable || receiver_.RecordWaits() || receiver_.RecordWaitsBehindHeldSend() ||
                 (!state_.rings.armed_for_records() && state_.rings.AcknowledgementWaits()) ||
                 state_.rings.theirs().end_code.load(std::memory_order_acquire) != 0;
  return now;
}

Interest ShmTransport::interest() const {
  Interest now = Remaining();
  now.runnable = now.runnable || state_.rings.must_look_again();
  return now;
}

Interest ShmTransport::Remaining() const {
  return {.fd = state_.rings.socket(),
          .read = true,
          // More may matter than what this side is armed for.
          .runnable = state_.runnable || !state_.rings.armed() ||
                      (state_.rings.armed_for_records() && AwaitsAcknowledgements()),
          .deadline = std::min(receiver_.arriving().deadline(), rearm_at_)};
}

void ShmTransport::FindQuietWords(QuietWords* words) const {
  if (state_.runnable || state_.goodbye_wanted || state_.memory.hung_up() || !state_.responses.empty() ||
      receiver_.arriving().held() || sender_.busy() || interest().deadline != Time::max()) {
    return;
  }
  *words = state_.rings.QuietWordsAt(receiver_.position());
}

bool ShmTransport::AskToAnnounce(int page, std::uint32_t place) {
  ArmForMore();
  const bool asked = state_.memory.GiveReadyPage(page, place);
  state_.rings.WakePeer();
  return asked;
}

void ShmTransport::OnDeadline(Time now) {
  if (now >= rearm_at_) rearm_at_ = Time::max();
  receiver_.arriving().OnDeadline(now);
}

void ShmTransport::SayGoodbye() {
  state_.goodbye_wanted = true;
  goodbye_from_ = receiver_.position();
  if (!state_.queue_pair.live() || receiver_.peer_goodbye()) {
    PublishGoodbye();
    state_.rings.WakePeer();
  } else {
    state_.runnable = true;  // The round that reads the last data reports it.
  }
}

// The goodbye waits until a ring of records was handled and the Reads of the peer are answered.
void ShmTransport::ContinueGoodbye() {
  const bool live = state_.queue_pair.live();
  const bool more = live && receiver_.RecordWaits() && receiver_.position() - goodbye_from_ < kSlots;
  if (!live || (!more && state_.responses.empty())) PublishGoodbye();
  state_.runnable = state_.runnable || more;
}

void ShmTransport::PublishGoodbye() {
  if (goodbye_published_) return;
  // A reader of the goodbye sees this too, so messages consumed before it are not lost.
  state_.rings.Consumed(receiver_.position());
  goodbye_published_ = state_.rings.PublishControl(RecordKind::kGoodbye);
}

void ShmTransport::SayTerminate(EndCode code) {
  cause_ = Ended("This side", static_cast<std::uint32_t>(code));
  SideControl& mine = state_.rings.mine();
  state_.rings.Consumed(receiver_.position());
  mine.end_position.store(receiver_.position(), std::memory_order_relaxed);
  mine.end_code.store(static_cast<std::uint32_t>(code), std::memory_order_release);
  state_.rings.RingDoorbell();
  state_.rings.WakePeer();
}

// `code`: the reason that the peer wrote; 0: its process died.
void ShmTransport::OnPeerEnd(std::uint32_t code) {
  SoftQueuePair& queue_pair = state_.queue_pair;
  // Acknowledgements of the peer before its end still count.
  state_.rings.Acknowledge();
  for (int i = 0; i < 64 && queue_pair.live() && receiver_.Consume(); ++i) {
  }
  if (!queue_pair.live()) return;
  if (code == 0) return queue_pair.OnTransportLost(DisconnectReason::kPeerProcessDied);
  cause_ = Ended("The other side", code);
  const std::uint64_t request =
      state_.rings.RequestAt(state_.rings.theirs().end_position.load(std::memory_order_relaxed));
  if (code == static_cast<std::uint32_t>(EndCode::kLocal) || request == kNoRequest) {
    return queue_pair.OnTransportLost(DisconnectReason::kUnknown);
  }
  queue_pair.FailAt(request, static_cast<EndCode>(code));
}

bool ShmTransport::PeerTouches(std::uint32_t stag) {
  if (!state_.memory.enabled()) return false;
  // Orders the invalidation of the STag before the read of the hazard of the peer; the peer does the reverse.
  std::atomic_thread_fence(std::memory_order_seq_cst);
  return state_.rings.theirs().hazard.load(std::memory_order_acquire) == stag;
}

}  // namespace nd::provider::soft
