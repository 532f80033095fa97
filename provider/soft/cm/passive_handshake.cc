// SPDX-License-Identifier: Apache-2.0
// The accepting side. Everything it reads comes from anybody who can reach the port.
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
  // Before the reply the stream is not in full operation, so nothing can be said there (RFC 5044 8).
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
    data = data.subspan(wire::kNdbHeaderSize);
  }
  if (frame.markers) {
    // We cannot give what the peer needs, and say so (RFC 5044 7.1.1).
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

HandshakeStep PassiveHandshake::Accept(const ReadLimits& limits, const Bytes& private_data) {
  wire::Check(state_ == State::kIncoming, "only an unanswered request is accepted");
  wire::MpaFrame frame = ReplyFrame();
  constexpr std::uint32_t kMax = wire::kMaxMpaReadLimit;
  const ReadLimits capped{std::min(limits.inbound, kMax), std::min(limits.outbound, kMax)};
  agreement_.crc = frame.crc;
  agreement_.limits = capped;
  const bool peer_to_peer = enhanced_ && peer_words_.peer_to_peer;
  if (enhanced_) {
    frame.words.ird = static_cast<std::uint16_t>(capped.inbound);
    frame.words.ord = static_cast<std::uint16_t>(capped.outbound);
  }
  if (peer_to_peer) {
    // A peer that offers neither is told that a Write would do.
    rtr_is_read_ = !peer_words_.rtr_write && peer_words_.rtr_read;
    frame.words.peer_to_peer = true;
    frame.words.rtr_write = !rtr_is_read_;
    frame.words.rtr_read = rtr_is_read_;
  }
  HandshakeStep step = SendReply(frame, Detail::kNone, private_data);
  state_ = peer_to_peer ? State::kAwaitRtr : State::kDone;
  if (!peer_to_peer) step.event = Event::kEstablished;
  return step;
}

HandshakeStep PassiveHandshake::Reject(Detail reason, const Bytes& private_data) {
  wire::Check(state_ == State::kIncoming, "only an unanswered request is rejected");
  wire::MpaFrame frame = ReplyFrame();
  frame.rejected = true;
  HandshakeStep step = SendReply(frame, reason, private_data);
  state_ = State::kDone;
  step.close = Close::kGraceful;
  return step;
}

HandshakeStep PassiveHandshake::SendReply(wire::MpaFrame frame, Detail reason, const Bytes& private_data) {
  wire::Check(private_data.size() <= (config_.mode == PortMode::kSeparate ? kMaxSeparateData : kMaxTcpData),
              "the core has bounded the private data of Accept and Reject");
  HandshakeStep step;
  step.send = handshake_internal::EncodeStartFrame(frame, config_.mode, peer_destination_port_,
                                                   peer_source_port_, reason, private_data);
  return step;
}

HandshakeStep PassiveHandshake::OnFirstFrame(wire::ByteSpan unread) {
  if (unread.size() < wire::kFpduHeaderSize) return {};
  const std::size_t ulpdu = wire::LoadBig<std::uint16_t>(unread.data());
  const wire::ByteSpan present = unread.subspan(wire::kFpduHeaderSize);
  if (present.size() < std::min(ulpdu, wire::kMaxSegmentHeader)) return {};
  wire::Segment segment;
  std::size_t header_size = 0;
  if (const auto fault = wire::DecodeSegmentHeader(present.first(std::min(present.size(), ulpdu)), ulpdu,
                                                   &segment, &header_size)) {
    return Broken(*fault, "the first frame is malformed: " + wire::Describe(*fault));
  }
  switch (segment.opcode) {
    case wire::Opcode::kTerminate:
      return OnFirstTerminate(unread, 0, {});
    case wire::Opcode::kWrite:
      if (segment.last && ulpdu == header_size) return OnRtr(unread, segment);
      break;
    case wire::Opcode::kReadRequest:
      if (unread.size() < wire::FpduSize(ulpdu)) return {};
      if (wire::DecodeReadRequest(present.subspan(header_size, wire::kReadRequestSize)).size == 0) {
        return OnRtr(unread, segment);
      }
      break;
    case wire::Opcode::kSend:
      if (config_.mode == PortMode::kSeparate) return OnFirstSend(unread);
      break;
    case wire::Opcode::kReadResponse:
      return Broken(wire::fault::kUnexpectedOpcode, "the first frame answers a Read that nobody sent");
    default:
      break;
  }
  // Data instead of the RTR frame says as much (behaviour b.1); it stays where it is, for the queue pair.
  state_ = State::kDone;
  HandshakeStep step;
  step.event = Event::kEstablished;
  return step;
}

HandshakeStep PassiveHandshake::OnRtr(wire::ByteSpan unread, const wire::Segment& segment) {
  const bool is_read = segment.opcode == wire::Opcode::kReadRequest;
  if (is_read != rtr_is_read_) {
    return Broken(wire::fault::kNoCommonRtr, "the confirmation is not of the agreed kind");
  }
  const wire::FpduDecoded frame = wire::DecodeFpdu(unread, agreement_.crc);
  if (frame.verdict != wire::Verdict::kComplete) return {};
  if (!frame.crc_ok) return Broken(wire::fault::kCrc, "the confirmation fails its CRC");
  HandshakeStep step;
  if (is_read) {
    if (segment.msn != 1)
      return Broken(wire::fault::kMsnRange, "the confirmation has a wrong sequence number");
    const wire::ReadRequest request = wire::DecodeReadRequest(frame.ulpdu.last(wire::kReadRequestSize));
    step.send = handshake_internal::ReadResponseFrame(request.sink_stag, request.sink_offset, agreement_.crc);
    agreement_.read_msn_in = 2;
  }
  state_ = State::kDone;
  step.event = Event::kEstablished;
  step.consumed = frame.size;
  return step;
}

HandshakeStep PassiveHandshake::OnFirstSend(wire::ByteSpan unread) {
  constexpr std::size_t kMaxRejection = wire::FpduSize(wire::kUntaggedHeaderSize + kMaxSeparateData);
  const wire::FpduDecoded send = wire::DecodeFpdu(unread, agreement_.crc);
  wire::Segment segment;
  if (send.size <= kMaxRejection) {
    if (send.verdict != wire::Verdict::kComplete) return {};
    if (!send.crc_ok) return Broken(wire::fault::kCrc, "the first frame fails its CRC");
    if (!wire::DecodeSegment(send.ulpdu, &segment) && segment.last && segment.msn == 1) {
      return OnFirstTerminate(unread, send.size, handshake_internal::ToBytes(segment.payload));
    }
  }
  state_ = State::kDone;
  HandshakeStep step;
  step.event = Event::kEstablished;
  return step;
}

HandshakeStep PassiveHandshake::OnFirstTerminate(wire::ByteSpan unread, std::size_t skip,
                                                 const Bytes& private_data) {
  const wire::FpduDecoded frame = wire::DecodeFpdu(unread.subspan(skip), agreement_.crc);
  // Nothing that quotes one segment is longer.
  constexpr std::size_t kLongest = wire::FpduSize(wire::kUntaggedHeaderSize + wire::kMaxTerminateSize);
  wire::Segment segment;
  HandshakeStep step;
  if (frame.size > kLongest && skip == 0) {
    return Broken(wire::fault::kMessageTooLong, "the first frame is an overlong Terminate");
  }
  if (frame.size <= kLongest) {
    if (frame.verdict != wire::Verdict::kComplete) return {};
    const bool whole = frame.crc_ok && !wire::DecodeSegment(frame.ulpdu, &segment);
    if (whole && segment.opcode == wire::Opcode::kTerminate) {
      const auto said = wire::DecodeTerminate(segment.payload, wire::DetectTerminateLayout(segment.payload));
      const wire::Fault fault = said ? said->fault : wire::fault::kOperationUnspecified;
      const bool rejection = fault == wire::fault::kStreamCatastrophic;
      state_ = State::kDone;
      step.event = Event::kLost;
      step.close = Close::kReset;
      step.status = Status(StatusCode::kConnectionAborted,
                           rejection ? "the connecting application rejected the connection"
                                     : "the other side ended the handshake: " + wire::Describe(fault),
                           rejection ? Detail::kPeerRejected : Detail::kProtocol);
      if (rejection) step.private_data = private_data;
      return step;
    }
    if (skip == 0) return Broken(wire::fault::kCrc, "the first frame fails its CRC");
  }
  // A Send that no Terminate follows is data.
  state_ = State::kDone;
  step.event = Event::kEstablished;
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
