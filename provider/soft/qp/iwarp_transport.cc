// SPDX-License-Identifier: Apache-2.0
// The life of an iWARP connection: set-up, the round that moves data, goodbye and Terminate.
#include "provider/soft/qp/iwarp_transport.h"

#include <algorithm>
#include <cstring>

namespace nd::provider::soft {
namespace {

// Between our own ends an FPDU is as large as its length field allows (a little less, so that payloads are
// multiples of 8); a foreign peer gets one that fits a TCP segment.
constexpr std::uint32_t kOwnUlpdu = 65490;
constexpr std::uint32_t kMinUlpdu = 128;
// The limit of bytes that a goodbye drains: more than a socket holds, and bounded, so that a peer cannot
// delay the end for ever.
// The segment of a path about which nothing is known.
constexpr std::size_t kLeastSegment = 536;
// A vanished host is noticed, both while sending and while waiting.
constexpr Duration kAskAfter = std::chrono::seconds(15), kMissAfter = std::chrono::seconds(30);
constexpr std::size_t kMaxDrained = 8 * 1024 * 1024;

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
  std::uint32_t max_ulpdu = record.max_ulpdu;
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

bool IwarpTransport::Progress(bool) {
  runnable_ = false;
  if (!queue_pair_.live()) {
    if (goodbye_wanted_) EndOutput();
    return false;
  }
  if (broken_) {
    queue_pair_.EndConnection(EndCode::kLocal);
    return true;
  }
  const bool received = Receive();
  if (!queue_pair_.live()) return true;
  if (!received) ++quiet_polls_;
  // The answer to a confirmation can be sent with the next data of the application; it is sent alone when the
  // next round finds none.
  if (received && !Urgent()) {
    runnable_ = runnable_ || empty_responses_ != 0;
    return true;
  }
  return Pump() || received;
}

void IwarpTransport::Transmit() {
  if (!queue_pair_.live()) return;
  if (Gathers()) {
    runnable_ = true;
    return;
  }
  Pump();
}

bool IwarpTransport::Arm() {
  runnable_ = false;
  quiet_polls_ = kQuietPolls;  // A sleeper does not count polls.
  if (queue_pair_.live()) Pump();
  return false;  // Level-triggered: data in the socket wakes the sleeper.
}

Interest IwarpTransport::interest() const {
  // Behind a held Send not all data may fit, but the end of the stream of an ndbroker peer must be noticed.
  return {.fd = socket_.get(),
          .read = CanReceive(),
          .write = blocked_,
          .hang_up = held_ && peer_confirms(),
          .runnable = runnable_,
          .deadline = held_until_};
}

void IwarpTransport::OnDeadline(Time now) {
  if (now < held_until_) return;
  held_until_ = Time::max();
  if (held_ && queue_pair_.live()) queue_pair_.EndConnection(EndCode::kNoReceive);
}

void IwarpTransport::OnFlushInitiator() {
  for (std::uint32_t i = reads_tail_; i != reads_head_; ++i) {
    OutboundRead& read = reads_[i % reads_.size()];
    read.request = kNone;
    read.confirms = 0;
  }
  CopyRestOfBatch();
  batch_end_ = 0;
  // After an incomplete message the stream cannot continue.
  if (partial_ != kNone) broken_ = runnable_ = true;
  partial_ = kNone;
  confirmed_to_ = confirm_end_ = 0;
}

void IwarpTransport::OnFlushReceive() {
  if (in_message_) swallow_ = true;
}

// The rest of a partly sent batch must be sent, but not from memory that belongs to the application again.
void IwarpTransport::CopyRestOfBatch() {
  if (batch_at_ == batch_.size()) return;
  std::vector<std::byte> rest;
  for (std::size_t i = batch_at_; i < batch_.size(); ++i) {
    rest.insert(rest.end(), batch_[i].data, batch_[i].data + batch_[i].size);
  }
  orphans_ = std::move(rest);
  batch_.assign(1, {orphans_.data(), orphans_.size()});
  batch_at_ = 0;
}

void IwarpTransport::SayGoodbye() {
  goodbye_wanted_ = true;
  if (!queue_pair_.live() || stream_ended_) {
    EndOutput();
  } else {
    runnable_ = true;  // The round that reads the last data reports it.
  }
}

void IwarpTransport::TryGoodbye() {
  if (goodbye_sent_ || reset_ || batch_at_ != batch_.size() || partial_ != kNone) return;
  if (responses_tail_ != responses_head_ || (!drained_ && drained_bytes_ < kMaxDrained)) {
    runnable_ = true;
    return;
  }
  // A Read Request that confirms these would come too late to be answered.
  if (own_peer_ && messages_in_ != confirmed_in_) FrameReceived();
  EndOutput();
}

void IwarpTransport::EndOutput() {
  if (goodbye_sent_ || !Flush() || partial_ != kNone) return;
  goodbye_sent_ = true;
  os::ResetOnClose(socket_.get(), false);
  os::ShutDown(socket_.get(), os::Direction::kSend);
  runnable_ = runnable_ || (held_ && queue_pair_.live());  // It no longer has a deadline.
}

void IwarpTransport::SayTerminate(EndCode code) {
  if (!last_words_) {
    wire::Fault fault = wire::fault::kLocalCatastrophic;
    if (code == EndCode::kNoReceive) fault = wire::fault::kNoBuffer;
    if (code == EndCode::kTooLong) fault = wire::fault::kMessageTooLong;
    if (code == EndCode::kProtocol) fault = wire::fault::kStreamCatastrophic;
    if (code == EndCode::kRemoteAccess) fault = wire::fault::kInvalidStag;
    wire::ByteSpan offending;
    if (held_ && rx_end_ - rx_begin_ > wire::kFpduHeaderSize) {
      const auto size = wire::LoadBig<std::uint16_t>(rx_.get() + rx_begin_);
      offending =
          wire::ByteSpan(rx_.get() + rx_begin_ + 2, std::min<std::size_t>(size, rx_end_ - rx_begin_ - 2));
    }
    last_words_ = wire::MakeTerminate(fault, offending);
  }
  EndedBy("This side", last_words_->fault);
  if (goodbye_sent_) return;
  Flush();
  if (batch_at_ == batch_.size()) {
    std::byte frame[wire::FpduSize(wire::kUntaggedHeaderSize + wire::kMaxTerminateSize)];
    wire::Segment segment;
    segment.opcode = wire::Opcode::kTerminate;
    segment.msn = 1;
    std::size_t size = wire::EncodeSegmentHeader(segment, frame + wire::kFpduHeaderSize);
    std::byte payload[wire::kMaxTerminateSize];
    const std::size_t words = wire::EncodeTerminate(*last_words_, wire::TerminateLayout::kRfc, payload);
    std::memcpy(frame + wire::kFpduHeaderSize + size, payload, words);
    size = wire::SealFpdu(frame, size + words, crc_);
    // Without the Terminate an end of the stream would look like a goodbye; a reset does not.
    if (os::Send(socket_.get(), frame, size) <= 0) return;
  }
  // The Terminate must arrive: no reset by lingering and none by unread bytes that have arrived.
  os::ResetOnClose(socket_.get(), false);
  os::ShutDown(socket_.get(), os::Direction::kSend);
  std::byte sink[4096];
  for (int i = 0; i < 256 && os::Receive(socket_.get(), sink, sizeof sink) > 0; ++i) {
  }
}

}  // namespace nd::provider::soft
