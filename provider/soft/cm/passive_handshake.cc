// SPDX-License-Identifier: Apache-2.0
// The accepting side. Any host that can reach the port may send these bytes.
#include <algorithm>
#include <utility>

#include "provider/soft/cm/handshake.h"
#include "provider/soft/wire/check.h"
#include "provider/soft/wire/ndb_header.h"
#include "provider/soft/wire/terminate.h"

namespace nd::provider::soft {
namespace {

using Event = HandshakeStep::Event;
using Close = HandshakeStep::Close;

bool Agreeable(std::uint16_t limit) {
  return limit != wire::kMpaReadLimitUnknown;
}

}  // namespace

PassiveHandshake::PassiveHandshake(const HandshakeConfig& config) : config_(config) {}

HandshakeStep PassiveHandshake::Broken(const wire::Fault& fault, const std::string& message) {
  HandshakeStep step;
  step.event = Event::kLost;
  step.status = Status(StatusCode::kConnectionAborted, message, Detail::kProtocol);
  // Before the reply the stream is not in full operation, so no Terminate may be sent (RFC 5044 8).
  if (state_ == State::kAwaitRtr) {
    step.send = handshake_internal::TerminateFrame(fault, agreement_.crc);
    step.close = Close::kGraceful;
  } else {
    step.close = Close::kReset;
  }
  state_ = State::kDone;
  return step;
}

HandshakeStep PassiveHandshake::OnInput(wire::ByteSpan unread) {
  switch (state_) {
    case State::kAwaitRequest: {
      const wire::MpaDecoded decoded = wire::DecodeMpa(wire::MpaKind::kRequest, unread);
      if (decoded.verdict == wire::Verdict::kNeedMore) return {};
      if (decoded.verdict == wire::Verdict::kComplete && unread.size() == decoded.size) {
        return OnRequest(decoded.frame, decoded.size);
      }
      state_ = State::kDone;
      HandshakeStep dropped;
      dropped.event = Event::kDropped;
      dropped.close = Close::kReset;
      return dropped;
    }
    case State::kIncoming:
      if (unread.empty()) return {};
      return Broken(wire::fault::kStartFrame, "the other side sent data before it got an answer");
    case State::kAwaitRtr:
      return OnFirstFrame(unread);
    case State::kDone:
      break;
  }
  return {};
}

HandshakeStep PassiveHandshake::OnRequest(const wire::MpaFrame& frame, std::size_t size) {
  revision_ = frame.revision;
  enhanced_ = frame.enhanced;
  crc_requested_ = frame.crc;
  peer_words_ = frame.words;
  HandshakeStep step;
  step.consumed = size;
  wire::ByteSpan data = frame.private_data;
  if (config_.mode == PortMode::kSeparate) {
    const auto header = wire::DecodeNdbHeader(data);
    if (!header) {
      state_ = State::kDone;
      step.event = Event::kDropped;
      step.close = Close::kReset;
      return step;
    }
    peer_source_port_ = step.source_port = header->source_port;
    peer_destination_port_ = step.destination_port = header->destination_port;
    agreement_.confirmation_reads = (header->flags & wire::kNdbConfirmationReads) != 0;
    peer_extensions_ = (header->flags & wire::kNdbExtensions) != 0;
    data = data.subspan(wire::kNdbHeaderSize);
  }
  if (frame.markers) {
    // The peer requires markers, which are not supported. The reply says so (RFC 5044 7.1.1).
    step.send = handshake_internal::EncodeStartFrame(
        [&] {
          wire::MpaFrame refusal = ReplyFrame();
          refusal.rejected = true;
          return refusal;
        }(),
        config_.mode, peer_destination_port_, peer_source_port_, Detail::kProtocol, {});
    state_ = State::kDone;
    step.event = Event::kDropped;
    step.close = Close::kGraceful;
    return step;
  }
  state_ = State::kIncoming;
  step.event = Event::kRequest;
  step.limits_known = enhanced_ && Agreeable(peer_words_.ird) && Agreeable(peer_words_.ord);
  if (step.limits_known) step.limits = {peer_words_.ird, peer_words_.ord};
  step.private_data = handshake_internal::ToBytes(data);
  return step;
}

wire::MpaFrame PassiveHandshake::ReplyFrame() const {
  wire::MpaFrame frame;
  frame.kind = wire::MpaKind::kReply;
  frame.revision = revision_;
  frame.enhanced = enhanced_;
  frame.crc = config_.crc || crc_requested_;
  return frame;
}

HandshakeStep PassiveHandshake::Accept(const ReadLimits& limits, const Bytes& private_data, bool extensions) {
  wire::Check(state_ == State::kIncoming, "only an unanswered request is accepted");
  wire::MpaFrame frame = ReplyFrame();
  constexpr std::uint32_t kMax = wire::kMaxMpaReadLimit;
  const ReadLimits capped{std::min(limits.inbound, kMax), std::min(limits.outbound, kMax)};
  agreement_.crc = frame.crc;
  agreement_.limits = capped;
  agreement_.extensions = extensions && peer_extensions_;
  const bool peer_to_peer = enhanced_ && peer_words_.peer_to_peer;
  if (enhanced_) {
    frame.words.ird = static_cast<std::uint16_t>(capped.inbound);
    frame.words.ord = static_cast<std::uint16_t>(capped.outbound);
  }
  if (peer_to_peer) {
    // To a peer that offers neither, a Write is proposed.
    rtr_is_read_ = !peer_words_.rtr_write && peer_words_.rtr_read;
    frame.words.peer_to_peer = true;
    frame.words.rtr_write = !rtr_is_read_;
    frame.words.rtr_read = rtr_is_read_;
  }
  HandshakeStep step = SendReply(frame, Detail::kNone, private_data, extensions);
  state_ = peer_to_peer ? State::kAwaitRtr : State::kDone;
  if (!peer_to_peer) step.event = Event::kEstablished;
  return step;
}

HandshakeStep PassiveHandshake::Reject(Detail reason, const Bytes& private_data) {
  wire::Check(state_ == State::kIncoming, "only an unanswered request is rejected");
  wire::MpaFrame frame = ReplyFrame();
  frame.rejected = true;
  HandshakeStep step = SendReply(frame, reason, private_data, false);
  state_ = State::kDone;
  step.close = Close::kGraceful;
  return step;
}

HandshakeStep PassiveHandshake::SendReply(wire::MpaFrame frame, Detail reason, const Bytes& private_data,
                                          bool extensions) {
  wire::Check(private_data.size() <= (config_.mode == PortMode::kSeparate ? kMaxSeparateData : kMaxTcpData),
              "the core has bounded the private data of Accept and Reject");
  HandshakeStep step;
  step.send = handshake_internal::EncodeStartFrame(frame, config_.mode, peer_destination_port_,
                                                   peer_source_port_, reason, private_data, extensions);
  return step;
}

HandshakeStep PassiveHandshake::OnFirstFrame(wire::ByteSpan unread) {
  const wire::FpduDecoded frame = wire::DecodeFpdu(unread, agreement_.crc);
  // No frame of the handshake is longer than kHandshakePeek.
  if (frame.size > kHandshakePeek) return OnFirstData();
  if (frame.verdict != wire::Verdict::kComplete) return {};
  // The CRC is checked first: the contents of a damaged frame are meaningless.
  if (!frame.crc_ok) return Broken(wire::fault::kCrc, "the first frame fails its CRC");
  wire::Segment segment;
  if (const auto fault = wire::DecodeSegment(frame.ulpdu, &segment)) {
    return Broken(*fault, "the first frame is malformed: " + wire::Describe(*fault));
  }
  switch (segment.opcode) {
    case wire::Opcode::kTerminate:
      return OnTerminate(segment, {});
    case wire::Opcode::kWrite:
      if (segment.last && segment.payload.empty()) return OnRtr(frame, segment);
      break;
    case wire::Opcode::kReadRequest:
      if (wire::DecodeReadRequest(segment.payload).size == 0) return OnRtr(frame, segment);
      break;
    case wire::Opcode::kSend:
      // A rejection after the reply is a Send and a Terminate.
      if (config_.mode == PortMode::kSeparate && segment.last && segment.msn == 1 &&
          segment.payload.size() <= kMaxSeparateData) {
        return OnFirstSend(unread.subspan(frame.size), segment);
      }
      break;
    case wire::Opcode::kReadResponse:
      return Broken(wire::fault::kUnexpectedOpcode, "the first frame answers a Read that nobody sent");
    default:
      break;
  }
  return OnFirstData();
}

// Data instead of the RTR frame establishes the connection too (behaviour b.1). It stays in the stream for
// the queue pair.
HandshakeStep PassiveHandshake::OnFirstData() {
  state_ = State::kDone;
  HandshakeStep step;
  step.event = Event::kEstablished;
  return step;
}

HandshakeStep PassiveHandshake::OnRtr(const wire::FpduDecoded& frame, const wire::Segment& segment) {
  const bool is_read = segment.opcode == wire::Opcode::kReadRequest;
  if (is_read != rtr_is_read_) {
    return Broken(wire::fault::kNoCommonRtr, "the confirmation is not of the agreed kind");
  }
  HandshakeStep step;
  if (is_read) {
    if (segment.msn != 1)
      return Broken(wire::fault::kMsnRange, "the confirmation has a wrong sequence number");
    const wire::ReadRequest request = wire::DecodeReadRequest(segment.payload);
    step.send = handshake_internal::ReadResponseFrame(request.sink_stag, request.sink_offset, agreement_.crc);
    agreement_.read_msn_in = 2;
  }
  state_ = State::kDone;
  step.event = Event::kEstablished;
  step.consumed = frame.size;
  return step;
}

HandshakeStep PassiveHandshake::OnFirstSend(wire::ByteSpan rest, const wire::Segment& send) {
  // The longest Terminate that quotes one segment.
  constexpr std::size_t kLongest = wire::FpduSize(wire::kUntaggedHeaderSize + wire::kMaxTerminateSize);
  const wire::FpduDecoded frame = wire::DecodeFpdu(rest, agreement_.crc);
  if (frame.size <= kLongest && frame.verdict != wire::Verdict::kComplete) return {};
  wire::Segment segment;
  if (frame.size <= kLongest && frame.crc_ok && !wire::DecodeSegment(frame.ulpdu, &segment) &&
      segment.opcode == wire::Opcode::kTerminate) {
    return OnTerminate(segment, handshake_internal::ToBytes(send.payload));
  }
  return OnFirstData();
}

HandshakeStep PassiveHandshake::OnTerminate(const wire::Segment& segment, const Bytes& private_data) {
  const auto said = wire::DecodeTerminate(segment.payload, wire::DetectTerminateLayout(segment.payload));
  const wire::Fault fault = said ? said->fault : wire::fault::kOperationUnspecified;
  const bool rejection = fault == wire::fault::kStreamCatastrophic;
  state_ = State::kDone;
  HandshakeStep step;
  step.event = Event::kLost;
  step.close = Close::kReset;
  step.status = Status(StatusCode::kConnectionAborted,
                       rejection ? "the connecting application rejected the connection"
                                 : "the other side ended the handshake: " + wire::Describe(fault),
                       rejection ? Detail::kPeerRejected : Detail::kProtocol);
  if (rejection) step.private_data = private_data;
  return step;
}

HandshakeStep PassiveHandshake::OnClosed(Ending ending) {
  HandshakeStep step;
  step.close = Close::kReset;
  if (state_ == State::kAwaitRequest || state_ == State::kDone) {
    step.event = state_ == State::kDone ? Event::kNone : Event::kDropped;
    state_ = State::kDone;
    return step;
  }
  state_ = State::kDone;
  step.event = Event::kLost;
  step.status =
      ending == Ending::kTimeout
          ? Status(StatusCode::kIoTimeout, "the other side does not answer any more", Detail::kWireTimeout)
          : Status(StatusCode::kConnectionAborted, "the connecting side withdrew", Detail::kPeerWithdrew);
  return step;
}

}  // namespace nd::provider::soft
