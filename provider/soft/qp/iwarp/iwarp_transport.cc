// SPDX-License-Identifier: Apache-2.0
// The life of an iWARP connection: set-up, the round that moves data, goodbye and Terminate.
#include "provider/soft/qp/iwarp/iwarp_transport.h"

#include <algorithm>
#include <utility>

#include "base/os/socket.h"
#include "provider/soft/qp/iwarp/faults.h"
#include "provider/soft/transports.h"
#include "provider/soft/wire/mpa.h"

namespace nd::provider::soft {
namespace {

// Between two ndbroker ends an FPDU has a payload of 32 KiB: the receiver checks and places one while the
// next arrives. To a foreign peer it fits one TCP segment.
constexpr std::uint32_t kOwnUlpdu = 32 * 1024 + wire::kMaxSegmentHeader;
constexpr std::uint32_t kMinUlpdu = 128;
// The segment of a path about which nothing is known.
constexpr std::size_t kLeastSegment = 536;
// A vanished host is noticed, both while sending and while waiting.
constexpr Duration kAskAfter = std::chrono::seconds(15), kMissAfter = std::chrono::seconds(30);

}  // namespace

Result<std::unique_ptr<Transport>> MakeIwarpTransport(SoftQueuePair& queue_pair, HandOff& hand_off) {
  const HandOffRecord& record = hand_off.record;
  if (hand_off.fds.size() != 1 || os::KindOf(hand_off.fds[0].get()) != os::SocketKind::kStream) {
    return Status(StatusCode::kInvalidParameter, "an iWARP connection is one TCP socket");
  }
  if (record.read_inbound > kMaxReadLimit || record.read_outbound > kMaxReadLimit) {
    return Status(StatusCode::kInvalidParameter, "the read limits are above the adapter's");
  }
  const int fd = hand_off.fds[0].get();
  std::uint32_t max_ulpdu = PayloadOf<IwarpPayload>(record).max_ulpdu;
  if (queue_pair.core().tuning.max_ulpdu != 0) max_ulpdu = queue_pair.core().tuning.max_ulpdu;
  if (max_ulpdu == 0 && (record.flags & kHandOffConfirm) != 0) max_ulpdu = kOwnUlpdu;
  if (max_ulpdu == 0) {
    std::size_t segment = os::LargestSegment(fd);
    if (segment == 0) segment = kLeastSegment;
    max_ulpdu = static_cast<std::uint32_t>(wire::MaxUlpduFor(segment & ~std::size_t{7}));
  }
  max_ulpdu = std::clamp<std::uint32_t>(max_ulpdu, kMinUlpdu, kOwnUlpdu);
  os::KeepTcpAlive(fd, kAskAfter, kMissAfter);
  os::ResetOnClose(fd, true);  // Also when this process dies.
  return std::unique_ptr<Transport>(
      std::make_unique<IwarpTransport>(queue_pair, record, max_ulpdu, std::move(hand_off.fds[0])));
}

IwarpTransport::IwarpTransport(SoftQueuePair& queue_pair, const HandOffRecord& record,
                               std::uint32_t max_ulpdu, UniqueFd socket)
    : state_(queue_pair, record, std::move(socket)),
      receiver_(state_, record),
      sender_(state_, record, max_ulpdu) {}

bool IwarpTransport::Progress(bool) {
  state_.runnable = false;
  if (!state_.queue_pair.live()) {
    if (state_.goodbye_wanted) sender_.EndOutput();
    return false;
  }
  if (sender_.broken()) {
    state_.queue_pair.EndConnection(EndCode::kLocal);
    return true;
  }
  const bool received = receiver_.Receive();
  if (!state_.queue_pair.live()) {
    if (state_.stream_ended && state_.goodbye_wanted) sender_.EndOutput();
    return true;
  }
  return sender_.OnRound(received);
}

void IwarpTransport::Transmit() {
  if (state_.queue_pair.live()) sender_.OnPost();
}

bool IwarpTransport::Arm() {
  state_.runnable = false;
  sender_.OnSleep();
  return false;  // Level-triggered: data in the socket wakes the sleeper.
}

Interest IwarpTransport::interest() const {
  const ArrivingSend& arriving = receiver_.arriving();
  const bool held = arriving.held();
  // The next round drops a held Send after the goodbye. Behind a held Send not all data may fit, but the end
  // of the stream of an ndbroker peer must be noticed.
  return {.fd = state_.socket.get(),
          .read = receiver_.CanReceive(),
          .write = state_.batch.blocked(),
          .hang_up = held && state_.peer_confirms,
          .runnable = state_.runnable || (held && state_.goodbye_sent && state_.queue_pair.live()),
          .deadline = arriving.deadline()};
}

void IwarpTransport::OnReceivePosted() {
  state_.runnable = state_.runnable || receiver_.arriving().held();
}

void IwarpTransport::SayGoodbye() {
  state_.goodbye_wanted = true;
  if (!state_.queue_pair.live() || state_.stream_ended) {
    sender_.EndOutput();
  } else {
    state_.runnable = true;  // The round that reads the last data reports it.
  }
}

void IwarpTransport::SayTerminate(EndCode code) {
  const wire::Terminate& words = receiver_.LastWords(code);
  state_.cause = EndedBy("This side", words.fault);
  if (state_.goodbye_sent) return;
  // Without the Terminate an end of the stream would look like a goodbye; a reset does not.
  if (!sender_.Terminate(words)) return;
  // The Terminate must arrive: no reset by lingering and none by unread bytes that have arrived.
  os::ResetOnClose(state_.socket.get(), false);
  os::ShutDown(state_.socket.get(), os::Direction::kSend);
  std::byte sink[4096];
  for (int i = 0; i < 256 && os::Receive(state_.socket.get(), sink, sizeof sink) > 0; ++i) {
  }
}

std::shared_ptr<void> IwarpTransport::TakeMemory() {
  using Bytes = std::unique_ptr<std::byte[]>;
  return std::make_shared<std::pair<Bytes, Bytes>>(receiver_.TakeBuffer(), state_.batch.TakeStage());
}

}  // namespace nd::provider::soft
