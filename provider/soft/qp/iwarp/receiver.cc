// SPDX-License-Identifier: Apache-2.0
// The stream: reads the socket, finds frames, and keeps a Send that has no receive. receive_segment.cc has
// the segments.
#include "provider/soft/qp/iwarp/receiver.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/os/socket.h"
#include "provider/soft/qp/iwarp/faults.h"
#include "provider/soft/transports.h"
#include "provider/soft/wire/mpa.h"

namespace nd::provider::soft {
namespace {

constexpr std::size_t kBufferSize = 512 * 1024;
constexpr std::size_t kBytesPerRound = 1024 * 1024;

}  // namespace

IwarpReceiver::IwarpReceiver(IwarpState& state, const HandOffRecord& record)
    : state_(state),
      send_msn_(PayloadOf<IwarpPayload>(record).send_msn_in),
      read_msn_(PayloadOf<IwarpPayload>(record).read_msn_in),
      arriving_(state.queue_pair) {}

bool IwarpReceiver::Receive() {
  if (!buffer_) buffer_.reset(new std::byte[kBufferSize]);
  bool moved = false;
  state_.drained = false;
  for (std::size_t bytes = 0; bytes < kBytesPerRound && state_.queue_pair.live();) {
    const bool was_held = arriving_.held();
    if (begin_ != end_) Parse();
    if (!state_.queue_pair.live()) return true;
    moved |= was_held && !arriving_.held();
    if (begin_ == end_) {
      begin_ = end_ = 0;
    } else {
      MakeRoom();
    }
    if (arriving_.held() && SenderGaveUp()) {
      arriving_.GiveUp();
      moved = true;
      continue;
    }
    if (!CanReceive()) {
      state_.drained = true;
      return moved;
    }
    const std::size_t room = kBufferSize - end_;
    const std::ptrdiff_t got = os::Receive(state_.socket.get(), buffer_.get() + end_, room);
    if (got > 0) {
      end_ += static_cast<std::size_t>(got);
      bytes += static_cast<std::size_t>(got);
      if (state_.goodbye_wanted) state_.drained_bytes += static_cast<std::size_t>(got);
      moved = true;
      Parse();
      // A short read emptied the socket: no need to ask again.
      state_.drained = static_cast<std::size_t>(got) < room;
      if (state_.drained) return true;
      continue;
    }
    if (got == 0) {
      // The end is handled after the held Send and the data behind it.
      end_read_ = true;
      if (arriving_.held()) continue;
      EndOfStream();
      return true;
    }
    if (errno == EINTR) continue;
    if (errno == EAGAIN || errno == EWOULDBLOCK) {
      if (state_.batch.failed()) Lost(ECONNRESET);
      state_.drained = true;
      return moved;
    }
    if (arriving_.held()) {
      // The loss, which the socket reports once, follows what arrived before it.
      lost_error_ = errno;
      arriving_.GiveUp();
      continue;
    }
    Lost(errno);
    return true;
  }
  state_.runnable = true;
  return moved;
}

// For a frame of any size, behind the bytes that are not handled.
void IwarpReceiver::MakeRoom() {
  if (begin_ == 0 || kBufferSize - end_ >= wire::kMaxFpdu) return;
  std::memmove(buffer_.get(), buffer_.get() + begin_, end_ - begin_);
  if (arriving_.held()) looked_to_ -= begin_;
  end_ -= begin_;
  begin_ = 0;
}

bool IwarpReceiver::CanReceive() const {
  return !arriving_.held() || (!end_read_ && end_ - begin_ != kBufferSize);
}

// A held Send may hold more data than is read, so the end of the stream is queried. After a goodbye, a peer
// that waits for confirmations has flushed its Sends. A Send of another peer may be valid and continues to
// wait.
bool IwarpReceiver::SenderGaveUp() const {
  const os::TcpState tcp = os::StateOfTcp(state_.socket.get());
  return tcp == os::TcpState::kClosed || (tcp == os::TcpState::kPeerFinished && state_.peer_confirms);
}

// A reset that arrived while the broker had the socket is reported only once, to the broker, and the stream
// then merely ends. But a connection that the peer ended in order is not closed before this side ends it too.
bool IwarpReceiver::WasReset() const {
  return !state_.goodbye_wanted && os::StateOfTcp(state_.socket.get()) == os::TcpState::kClosed;
}

void IwarpReceiver::EndOfStream() {
  if (lost_error_ != 0) return Lost(lost_error_);
  if (state_.batch.failed() || WasReset()) return Lost(ECONNRESET);
  // A stream that ends inside a frame or a message was truncated.
  if (begin_ != end_ || arriving_.incomplete()) {
    state_.cause = {StatusCode::kConnectionAborted, "The stream ended inside a message.", Detail::kTransport};
    return state_.queue_pair.OnTransportLost(DisconnectReason::kUnknown);
  }
  state_.stream_ended = true;
  state_.queue_pair.OnPeerGoodbye();
}

void IwarpReceiver::Lost(int error) {
  using enum DisconnectReason;
  const bool silent = error == ETIMEDOUT || error == EHOSTUNREACH || error == ENETUNREACH;
  const bool reset = error == ECONNRESET || error == EPIPE;
  if (!silent && !reset) {
    state_.cause = {StatusCode::kConnectionAborted, "The socket failed.", Detail::kTransport, error};
  }
  state_.queue_pair.OnTransportLost(silent  ? kTransportRetryExceeded
                                    : reset ? kPeerProcessDied
                                            : kUnknown,
                                    silent ? StatusCode::kIoTimeout : StatusCode::kCanceled);
}

void IwarpReceiver::Parse() {
  while (state_.queue_pair.live()) {
    const wire::ByteSpan rest(buffer_.get() + begin_, end_ - begin_);
    const wire::FpduDecoded frame = wire::DecodeFpdu(rest, state_.crc && !arriving_.held());
    if (frame.verdict != wire::Verdict::kComplete) return;
    if (!frame.crc_ok) {
      Violation(wire::fault::kCrc, {});
      return;
    }
    if (!Handle(frame.ulpdu)) {
      if (arriving_.held()) TakeAnswersBehindHeldSend();
      return;
    }
    begin_ += frame.size;
  }
}

// The owner of the missing receive may wait for these answers before it posts one. They leave the buffer, so
// that they are bounded only by the Reads in flight. Everything else is judged in its turn, faults included.
void IwarpReceiver::TakeAnswersBehindHeldSend() {
  std::size_t at = looked_to_;
  while (state_.queue_pair.live()) {
    std::byte* const from = buffer_.get() + at;
    const wire::FpduDecoded frame = wire::DecodeFpdu({from, end_ - at}, state_.crc);
    wire::Segment segment;
    if (frame.verdict != wire::Verdict::kComplete || !frame.crc_ok ||
        wire::DecodeSegment(frame.ulpdu, &segment, state_.extensions)) {
      break;
    }
    const bool atomic = segment.opcode == wire::Opcode::kAtomicResponse;
    if (segment.opcode == wire::Opcode::kReadResponse || atomic) {
      if (!(atomic ? HandleAtomicResponse(segment, frame.ulpdu) : HandleReadResponse(segment, frame.ulpdu)))
        return;
    } else {
      if (at != looked_to_) std::memmove(buffer_.get() + looked_to_, from, frame.size);
      looked_to_ += frame.size;
    }
    at += frame.size;
  }
  if (at == looked_to_) return;
  std::memmove(buffer_.get() + looked_to_, buffer_.get() + at, end_ - at);
  end_ -= at - looked_to_;
}

const wire::Terminate& IwarpReceiver::LastWords(EndCode code) {
  if (!last_words_) {
    wire::ByteSpan offending;
    if (arriving_.held() && end_ - begin_ > wire::kFpduHeaderSize) {
      const auto size = wire::LoadBig<std::uint16_t>(buffer_.get() + begin_);
      offending = wire::ByteSpan(buffer_.get() + begin_ + 2, std::min<std::size_t>(size, end_ - begin_ - 2));
    }
    last_words_ = wire::MakeTerminate(FaultFor(code), offending);
  }
  return *last_words_;
}

}  // namespace nd::provider::soft
