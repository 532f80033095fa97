// SPDX-License-Identifier: Apache-2.0
// The receiver: every segment is checked before a byte of it is placed.
#include <algorithm>
#include <cerrno>
#include <cstring>

#include "provider/soft/qp/iwarp_transport.h"
#include "provider/soft/wire/crc32c.h"

namespace nd::provider::soft {
namespace {

constexpr std::size_t kRxSize = 512 * 1024;
constexpr std::size_t kBytesPerRound = 1024 * 1024;

wire::Fault TaggedFault(SoftQueuePair::Refusal why) {
  switch (why) {
    case SoftQueuePair::Refusal::kBounds:
      return wire::fault::kDdpBounds;
    case SoftQueuePair::Refusal::kOtherQueuePair:
      return wire::fault::kDdpStagNotAssociated;
    case SoftQueuePair::Refusal::kRights:
      return wire::fault::kAccessRights;
    default:
      return wire::fault::kDdpInvalidStag;
  }
}

wire::Fault ReadFault(SoftQueuePair::Refusal why) {
  switch (why) {
    case SoftQueuePair::Refusal::kBounds:
      return wire::fault::kBounds;
    case SoftQueuePair::Refusal::kOtherQueuePair:
      return wire::fault::kStagNotAssociated;
    case SoftQueuePair::Refusal::kRights:
      return wire::fault::kAccessRights;
    default:
      return wire::fault::kInvalidStag;
  }
}

}  // namespace

bool IwarpTransport::Receive() {
  if (!rx_) rx_.reset(new std::byte[kRxSize]);
  bool moved = false;
  drained_ = false;
  for (std::size_t bytes = 0; bytes < kBytesPerRound && queue_pair_.live();) {
    const bool was_held = held_;
    if (rx_begin_ != rx_end_) Parse();
    if (!queue_pair_.live()) return true;
    moved |= was_held && !held_;
    if (rx_begin_ == rx_end_) {
      rx_begin_ = rx_end_ = 0;
    } else if (rx_begin_ != 0 && kRxSize - rx_end_ < wire::kMaxFpdu) {
      std::memmove(rx_.get(), rx_.get() + rx_begin_, rx_end_ - rx_begin_);
      if (held_) looked_to_ -= rx_begin_;
      rx_end_ -= rx_begin_;
      rx_begin_ = 0;
    }
    if (held_ && SenderGaveUp()) {
      GiveUpHeldSend();
      moved = true;
      continue;
    }
    if (!CanReceive()) {
      drained_ = true;
      return moved;
    }
    const std::size_t room = kRxSize - rx_end_;
    const std::ptrdiff_t got = os::Receive(socket_.get(), rx_.get() + rx_end_, room);
    if (got > 0) {
      rx_end_ += static_cast<std::size_t>(got);
      bytes += static_cast<std::size_t>(got);
      if (goodbye_wanted_) drained_bytes_ += static_cast<std::size_t>(got);
      moved = true;
      Parse();
      // A short read emptied the socket: no need to ask again.
      drained_ = static_cast<std::size_t>(got) < room;
      if (drained_) return true;
      continue;
    }
    if (got == 0) {
      // The end follows the held Send and what is behind it.
      stream_read_ = true;
      if (held_) continue;
      EndOfStream();
      return true;
    }
    if (errno == EINTR) continue;
    if (errno == EAGAIN || errno == EWOULDBLOCK) {
      if (reset_) Lost(ECONNRESET);
      drained_ = true;
      return moved;
    }
    if (held_) {
      // The loss, which the socket reports once, follows what arrived before it.
      lost_error_ = errno;
      GiveUpHeldSend();
      continue;
    }
    Lost(errno);
    return true;
  }
  runnable_ = true;
  return moved;
}

bool IwarpTransport::CanReceive() const {
  return !held_ || (!stream_read_ && rx_end_ - rx_begin_ != kRxSize);
}

void IwarpTransport::GiveUpHeldSend() {
  given_up_ = true;
  held_ = false;
  held_until_ = Time::max();
}

// A held Send may hold more data than is read, so the end of the stream is queried. After a goodbye, a peer
// that waits for confirmations has flushed its Sends. A Send of another peer may be valid and continues to
// wait.
bool IwarpTransport::SenderGaveUp() const {
  const os::TcpState state = os::StateOfTcp(socket_.get());
  return state == os::TcpState::kClosed || (state == os::TcpState::kPeerFinished && peer_confirms());
}

// A reset that arrived while the broker had the socket is reported only once, to the broker, and the stream
// then merely ends. But a connection that the peer ended in order is not closed before this side ends it too.
bool IwarpTransport::WasReset() const {
  return !goodbye_wanted_ && os::StateOfTcp(socket_.get()) == os::TcpState::kClosed;
}

void IwarpTransport::EndOfStream() {
  if (lost_error_ != 0) return Lost(lost_error_);
  if (reset_ || WasReset()) return Lost(ECONNRESET);
  // A stream that ends inside a frame or a message was truncated.
  if (rx_begin_ != rx_end_ || in_message_) {
    cause_ = {StatusCode::kConnectionAborted, "The stream ended inside a message.", Detail::kTransport};
    return queue_pair_.OnTransportLost(DisconnectReason::kUnknown);
  }
  stream_ended_ = true;
  queue_pair_.OnPeerGoodbye();
  if (goodbye_wanted_) EndOutput();
}

void IwarpTransport::Lost(int error) {
  using enum DisconnectReason;
  const bool silent = error == ETIMEDOUT || error == EHOSTUNREACH || error == ENETUNREACH;
  const bool reset = error == ECONNRESET || error == EPIPE;
  if (!silent && !reset)
    cause_ = {StatusCode::kConnectionAborted, "The socket failed.", Detail::kTransport, error};
  queue_pair_.OnTransportLost(silent  ? kTransportRetryExceeded
                              : reset ? kPeerProcessDied
                                      : kUnknown,
                              silent ? StatusCode::kIoTimeout : StatusCode::kCanceled);
}

void IwarpTransport::Parse() {
  while (queue_pair_.live()) {
    const wire::ByteSpan rest(rx_.get() + rx_begin_, rx_end_ - rx_begin_);
    const wire::FpduDecoded frame = wire::DecodeFpdu(rest, crc_ && !held_);
    if (frame.verdict != wire::Verdict::kComplete) return;
    if (!frame.crc_ok) {
      Violation(wire::fault::kCrc, {});
      return;
    }
    if (!Handle(frame.ulpdu)) {
      if (held_) TakeAnswersBehindHeldSend();
      return;
    }
    rx_begin_ += frame.size;
  }
}

// The owner of the missing receive may wait for these answers before it posts one. They leave the buffer, so
// that they are bounded only by the Reads in flight. Everything else is judged in its turn, faults included.
void IwarpTransport::TakeAnswersBehindHeldSend() {
  std::size_t at = looked_to_;
  while (queue_pair_.live()) {
    std::byte* const from = rx_.get() + at;
    const wire::FpduDecoded frame = wire::DecodeFpdu({from, rx_end_ - at}, crc_);
    wire::Segment segment;
    if (frame.verdict != wire::Verdict::kComplete || !frame.crc_ok ||
        wire::DecodeSegment(frame.ulpdu, &segment)) {
      break;
    }
    if (segment.opcode == wire::Opcode::kReadResponse) {
      if (!HandleReadResponse(segment, frame.ulpdu)) return;
    } else {
      if (at != looked_to_) std::memmove(rx_.get() + looked_to_, from, frame.size);
      looked_to_ += frame.size;
    }
    at += frame.size;
  }
  if (at == looked_to_) return;
  std::memmove(rx_.get() + looked_to_, rx_.get() + at, rx_end_ - at);
  rx_end_ -= at - looked_to_;
}

void IwarpTransport::EndedBy(const char* side, const wire::Fault& fault) {
  cause_ = {StatusCode::kConnectionAborted, std::string(side) + " ended it: " + wire::Describe(fault) + ".",
            Detail::kProtocol};
}

bool IwarpTransport::Violation(const wire::Fault& fault, wire::ByteSpan ulpdu) {
  last_words_ = wire::MakeTerminate(fault, ulpdu);
  queue_pair_.EndConnection(EndCode::kProtocol);
  return false;
}

bool IwarpTransport::Handle(wire::ByteSpan ulpdu) {
  wire::Segment segment;
  if (const auto fault = wire::DecodeSegment(ulpdu, &segment)) return Violation(*fault, ulpdu);
  switch (segment.opcode) {
    case wire::Opcode::kWrite:
      return HandleWrite(segment, ulpdu);
    case wire::Opcode::kReadRequest:
      return HandleReadRequest(segment, ulpdu);
    case wire::Opcode::kReadResponse:
      return HandleReadResponse(segment, ulpdu);
    case wire::Opcode::kTerminate:
      HandleTerminate(segment);
      return false;
    default:
      return HandleSend(segment, ulpdu);
  }
}

bool IwarpTransport::HandleSend(const wire::Segment& segment, wire::ByteSpan ulpdu) {
  if (segment.msn != send_msn_in_) return Violation(wire::fault::kMsnRange, ulpdu);
  if (segment.message_offset != (in_message_ ? message_offset_ : 0)) {
    return Violation(wire::fault::kMessageOffset, ulpdu);
  }
  const auto size = static_cast<std::uint32_t>(segment.payload.size());
  if (in_message_ && swallow_) {
    message_offset_ += size;
    if (segment.last) {
      in_message_ = swallow_ = false;
      ++send_msn_in_;
      if (!given_up_) ++messages_in_;
    }
    return true;
  }
  const bool drops = given_up_ && !in_message_;
  ReceiveRequest* receive = drops ? nullptr : queue_pair_.CurrentReceive();
  if (drops || (receive == nullptr && goodbye_sent_)) {
    // The sender counts it as undelivered: it abandoned it or will see our goodbye first. Its own end
    // follows.
    held_ = false;
    held_until_ = Time::max();
    in_message_ = swallow_ = !segment.last;
    message_offset_ = size;
    if (segment.last) ++send_msn_in_;
    return true;
  }
  if (receive == nullptr) {
    if (!held_) {
      held_ = true;
      looked_to_ = rx_begin_;
      held_until_ = Time(std::chrono::steady_clock::now()) + queue_pair_.core().tuning.rnr_timeout;
    }
    return false;
  }
  held_ = false;
  held_until_ = Time::max();
  if (!in_message_) {
    in_message_ = true;
    message_done_ = message_offset_ = 0;
    message_sink_ = SgeCursor(receive->list);
  }
  if (size > receive->list.length - message_done_) {
    last_words_ = wire::MakeTerminate(wire::fault::kMessageTooLong, ulpdu);
    queue_pair_.CompleteReceive(StatusCode::kBufferOverflow, 0, false);
    queue_pair_.EndConnection(EndCode::kTooLong);
    return false;
  }
  for (std::uint32_t done = 0; done < size;) {
    const Sge* sge = nullptr;
    const auto piece = message_sink_.Next(size - done, &sge);
    if (!queue_pair_.CheckLocal(*sge, kAllowLocalWrite)) {
      queue_pair_.CompleteReceive(StatusCode::kAccessViolation, 0, false);
      queue_pair_.EndConnection(EndCode::kLocal);
      return false;
    }
    std::memcpy(piece.data(), segment.payload.data() + done, piece.size());
    done += static_cast<std::uint32_t>(piece.size());
  }
  message_done_ += size;
  message_offset_ += size;
  if (!segment.last) return true;
  if (wire::Invalidates(segment.opcode) && !queue_pair_.InvalidateByPeer(segment.invalidate_stag)) {
    return Violation(wire::fault::kInvalidStag, ulpdu);
  }
  in_message_ = false;
  ++send_msn_in_;
  ++messages_in_;
  queue_pair_.CompleteReceive(StatusCode::kSuccess, message_done_, wire::IsSolicited(segment.opcode));
  return true;
}

bool IwarpTransport::HandleWrite(const wire::Segment& segment, wire::ByteSpan ulpdu) {
  const std::size_t size = segment.payload.size();
  // An empty Write to STag 0: the ready-to-receive frame of RFC 6581, or the count that an ndbroker peer
  // reports before its goodbye.
  if (size == 0 && segment.stag == 0) return !own_peer_ || HandleReceived(segment.offset, ulpdu);
  SoftQueuePair::Refusal why;
  std::byte* to = queue_pair_.RemoteTarget(segment.stag, segment.offset, size, kAllowRemoteWrite, &why);
  if (to == nullptr) return Violation(TaggedFault(why), ulpdu);
  if (size != 0) std::memcpy(to, segment.payload.data(), size);
  QpCounters& counters = queue_pair_.counters();
  QpCounters::Add(counters.rx_bytes, size);
  if (segment.last) {
    ++messages_in_;
    QpCounters::Add(counters.rx_writes, 1);
  }
  return true;
}

bool IwarpTransport::HandleReceived(std::uint64_t count, wire::ByteSpan ulpdu) {
  if (count > messages_out_) return Violation(wire::fault::kDdpBounds, ulpdu);
  auto& queue = queue_pair_.initiator();
  std::uint64_t end = confirm_end_;
  for (std::uint64_t missing = messages_out_ - count; missing != 0 && end > queue.tail;) {
    if (Counts(queue.at(--end))) --missing;
  }
  if (end <= queue.tail) return true;
  // The memory of confirmed requests returns to the application, even if the peer confirmed falsely.
  CopyRestOfBatch();
  queue_pair_.ConfirmBefore(end);
  return true;
}

bool IwarpTransport::HandleReadRequest(const wire::Segment& segment, wire::ByteSpan ulpdu) {
  if (segment.msn != read_msn_in_) return Violation(wire::fault::kMsnRange, ulpdu);
  if (responses_head_ - responses_tail_ >= read_inbound_) return Violation(wire::fault::kNoBuffer, ulpdu);
  const wire::ReadRequest request = wire::DecodeReadRequest(segment.payload);
  SoftQueuePair::Refusal why;
  if (request.size > kMaxTransferLength) return Violation(wire::fault::kBounds, ulpdu);
  if (request.size != 0 && queue_pair_.RemoteTarget(request.source_stag, request.source_offset, request.size,
                                                    kAllowRemoteRead, &why) == nullptr) {
    return Violation(ReadFault(why), ulpdu);
  }
  if (request.sink_offset > UINT64_MAX - request.size) return Violation(wire::fault::kRdmapOffsetWrap, ulpdu);
  ++read_msn_in_;
  confirmed_in_ = messages_in_;
  if (request.size == 0) ++empty_responses_;
  responses_[responses_head_++ % responses_.size()] = {request, 0};
  return true;
}

bool IwarpTransport::HandleReadResponse(const wire::Segment& segment, wire::ByteSpan ulpdu) {
  if (reads_tail_ == reads_head_) return Violation(wire::fault::kUnexpectedOpcode, ulpdu);
  OutboundRead& read = reads_[reads_tail_ % reads_.size()];
  // The response precedes the request, whose memory may still be in the socket.
  if (bytes_sent_ < read.wire_end) return Violation(wire::fault::kUnexpectedOpcode, ulpdu);
  const auto size = static_cast<std::uint32_t>(segment.payload.size());
  if (segment.stag != read.sink_stag) return Violation(wire::fault::kDdpInvalidStag, ulpdu);
  if (segment.offset != read.done || size > read.size - read.done ||
      segment.last != (read.done + size == read.size)) {
    return Violation(wire::fault::kDdpBounds, ulpdu);
  }
  for (std::uint32_t done = 0; done < size && read.request != kNone;) {
    const Sge* sge = nullptr;
    const auto piece = read.sink.Next(size - done, &sge);
    if (!queue_pair_.CheckLocal(*sge, kAllowLocalWrite | kRdmaReadSink)) {
      queue_pair_.EndConnection(EndCode::kLocal);
      return false;
    }
    std::memcpy(piece.data(), segment.payload.data() + done, piece.size());
    done += static_cast<std::uint32_t>(piece.size());
  }
  read.done += size;
  QpCounters& counters = queue_pair_.counters();
  QpCounters::Add(counters.rx_bytes, size);
  if (!segment.last) return true;
  ++reads_tail_;
  counters.reads_in_flight.store(reads_head_ - reads_tail_, std::memory_order_relaxed);
  if (read.confirmation) confirmation_in_flight_ = false;
  if (confirm_) queue_pair_.ConfirmBefore(read.confirms);
  if (read.request != kNone && queue_pair_.live()) {
    queue_pair_.CompleteInitiator(queue_pair_.initiator().at(read.request));
  }
  return true;
}

void IwarpTransport::HandleTerminate(const wire::Segment& segment) {
  const auto words = wire::DecodeTerminate(segment.payload, wire::DetectTerminateLayout(segment.payload));
  if (!words) return queue_pair_.OnTransportLost(DisconnectReason::kUnknown);
  const wire::Fault& fault = words->fault;
  EndedBy("The other side", fault);
  StatusCode status = StatusCode::kRemoteError;
  const bool protection = fault.layer != wire::Layer::kLlp && fault.type == 1;
  if (protection) status = StatusCode::kAccessViolation;
  if (fault == wire::fault::kNoBuffer) status = StatusCode::kIoTimeout;
  auto& queue = queue_pair_.initiator();
  if (words->ddp_header) {
    const wire::DdpHeader& header = *words->ddp_header;
    for (std::uint64_t i = queue.tail; i != queue.next; ++i) {
      const InitiatorRequest& request = queue.at(i);
      bool hit = false;
      if (header.tagged) {
        hit = request.op == Op::kWrite && request.token == header.stag &&
              header.offset >= request.remote_address &&
              header.offset - request.remote_address <= request.list.length;
      } else if (header.queue == wire::kSendQueue) {
        hit = (request.op == Op::kSend || request.op == Op::kSendInvalidate) && request.mark == header.msn;
      } else if (header.queue == wire::kReadRequestQueue) {
        hit = request.op == Op::kRead && request.mark == header.msn;
      }
      if (hit) return queue_pair_.FailAt(i, status);
    }
  }
  // An error of the peer, or one that names no request of this side.
  const bool theirs = fault.layer == wire::Layer::kLlp;
  queue_pair_.OnTransportLost(DisconnectReason::kUnknown, theirs ? StatusCode::kCanceled : status);
}

}  // namespace nd::provider::soft
