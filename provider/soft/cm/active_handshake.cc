// SPDX-License-Identifier: Apache-2.0
// The connecting side: sends the request, checks the reply and confirms with the agreed ready-to-receive
// frame.
#include <algorithm>
#include <utility>

#include "provider/soft/cm/handshake.h"
#include "provider/soft/wire/check.h"
#include "provider/soft/wire/ndb_header.h"

namespace nd::provider::soft {
namespace {

using Event = HandshakeStep::Event;
using Close = HandshakeStep::Close;
using handshake_internal::EncodeStartFrame;
using handshake_internal::ToBytes;

ReadLimits CapToWire(const ReadLimits& limits) {
  constexpr std::uint32_t kMax = wire::kMaxMpaReadLimit;
  return {std::min(limits.inbound, kMax), std::min(limits.outbound, kMax)};
}

std::string_view RefusalText(Detail reason) {
  switch (reason) {
    case Detail::kNoListener:
      return "nobody listens on that port of the other host";
    case Detail::kBacklogFull:
      return "the listener's queue of unanswered requests is full";
    case Detail::kPaused:
      return "the listener is paused";
    case Detail::kPeerRejected:
      return "the other application rejected the request";
    case Detail::kListenerClosed:
      return "the listener closed while the request waited";
    case Detail::kPolicy:
      return "a policy of the other host forbids it";
    case Detail::kStaleConnection:
      return "the other host still holds a connection with the same addresses";
    default:
      return "the other host refused";
  }
}

}  // namespace

ActiveHandshake::ActiveHandshake(const HandshakeConfig& config, std::uint16_t source_port,
                                 std::uint16_t destination_port, const ReadLimits& offer,
                                 const Bytes& private_data)
    : config_(config),
      source_port_(source_port),
      destination_port_(destination_port),
      offer_(CapToWire(offer)),
      private_data_(private_data) {
  wire::Check(private_data.size() <= (config.mode == PortMode::kSeparate ? kMaxSeparateData : kMaxTcpData),
              "the core has bounded the private data of Connect");
}

HandshakeStep ActiveHandshake::Start() {
  wire::MpaFrame frame;
  frame.crc = config_.crc;
  frame.enhanced = true;
  frame.words.peer_to_peer = true;
  frame.words.rtr_write = true;
  // A Read counts against the read limits, so it is offered as RTR only when they allow one.
  frame.words.rtr_read = offer_.outbound != 0;
  frame.words.ird = static_cast<std::uint16_t>(offer_.inbound);
  frame.words.ord = static_cast<std::uint16_t>(offer_.outbound);
  state_ = State::kAwaitReply;
  HandshakeStep step;
  step.send = EncodeStartFrame(frame, config_.mode, source_port_, destination_port_, Detail::kNone,
                               private_data_, config_.extensions);
  return step;
}

HandshakeStep ActiveHandshake::OnInput(wire::ByteSpan unread) {
  switch (state_) {
    case State::kAwaitReply: {
      const wire::MpaDecoded decoded = wire::DecodeMpa(wire::MpaKind::kReply, unread);
      if (decoded.verdict == wire::Verdict::kNeedMore) return {};
      if (decoded.verdict == wire::Verdict::kBad) {
        return Fail(StatusCode::kConnectionRefused, std::string(Name(decoded.fault)), Detail::kProtocol);
      }
      // A responder must not send until it has received the first frame of the initiator (RFC 5044 7.1.2).
      if (unread.size() > decoded.size && !decoded.frame.rejected) {
        return Fail(StatusCode::kConnectionRefused, "data follows the MPA reply before the confirmation",
                    Detail::kProtocol);
      }
      return OnReply(decoded.frame, decoded.size);
    }
    case State::kReplied:
      if (unread.empty()) return {};
      return Fail(StatusCode::kConnectionAborted, "the other side sent data before the confirmation",
                  Detail::kProtocol);
    case State::kAwaitReadResponse:
      return OnReadResponse(unread);
    case State::kNew:
    case State::kDone:
      break;
  }
  return {};
}

HandshakeStep ActiveHandshake::OnReply(const wire::MpaFrame& frame, std::size_t size) {
  if (frame.markers) {
    return Fail(StatusCode::kConnectionRefused, "the other side demands MPA markers", Detail::kProtocol);
  }
  if (frame.rejected) return OnRefusal(frame);

  HandshakeStep step;
  wire::ByteSpan data = frame.private_data;
  if (config_.mode == PortMode::kSeparate) {
    const auto header = wire::DecodeNdbHeader(data);
    if (!header || header->source_port != destination_port_ || header->destination_port != source_port_) {
      return Fail(StatusCode::kConnectionRefused, "the answer is not an ndbroker's", Detail::kProtocol);
    }
    agreement_.confirmation_reads = (header->flags & wire::kNdbConfirmationReads) != 0;
    agreement_.extensions = config_.extensions && (header->flags & wire::kNdbExtensions) != 0;
    data = data.subspan(wire::kNdbHeaderSize);
  }
  agreement_.crc = config_.crc || frame.crc;
  agreement_.limits = offer_;
  step.limits_known = frame.enhanced && frame.words.ird != wire::kMpaReadLimitUnknown &&
                      frame.words.ord != wire::kMpaReadLimitUnknown;
  if (step.limits_known) {
    if (frame.words.ord > std::max(offer_.inbound, config_.max_inbound)) {
      HandshakeStep failed =
          Fail(StatusCode::kInsufficientResources,
               "the other side insists on more RDMA Reads than this adapter can serve", Detail::kProtocol);
      failed.send = handshake_internal::TerminateFrame(wire::fault::kInsufficientIrd, agreement_.crc);
      failed.consumed = size;
      failed.close = Close::kGraceful;
      return failed;
    }
    agreement_.limits.inbound = frame.words.ord;
    agreement_.limits.outbound = std::min<std::uint32_t>(offer_.outbound, frame.words.ird);
    step.limits = {frame.words.ird, frame.words.ord};
  }
  if (frame.enhanced && frame.words.peer_to_peer) {
    if (frame.words.rtr_write) {
      rtr_ = Rtr::kWrite;
    } else if (frame.words.rtr_read && offer_.outbound != 0) {
      rtr_ = Rtr::kRead;
    } else {
      HandshakeStep failed = Fail(StatusCode::kConnectionRefused,
                                  "no ready-to-receive frame suits both sides", Detail::kProtocol);
      failed.send = handshake_internal::TerminateFrame(wire::fault::kNoCommonRtr, agreement_.crc);
      failed.consumed = size;
      failed.close = Close::kGraceful;
      return failed;
    }
  }
  state_ = State::kReplied;
  step.event = Event::kReply;
  step.consumed = size;
  step.private_data = ToBytes(data);
  return step;
}

HandshakeStep ActiveHandshake::OnRefusal(const wire::MpaFrame& frame) {
  state_ = State::kDone;
  HandshakeStep step;
  step.event = Event::kRejected;
  step.close = Close::kReset;
  Detail reason = Detail::kPeerRejected;
  wire::ByteSpan data = frame.private_data;
  if (config_.mode == PortMode::kSeparate) {
    if (const auto header = wire::DecodeNdbHeader(data)) {
      if (header->reason != Detail::kNone) reason = header->reason;
      data = data.subspan(wire::kNdbHeaderSize);
    } else {
      reason = Detail::kProtocol;
    }
  }
  if (reason == Detail::kPeerRejected) step.private_data = ToBytes(data);
  step.status = Status(StatusCode::kConnectionRefused, std::string(RefusalText(reason)), reason);
  return step;
}

HandshakeStep ActiveHandshake::Fail(StatusCode code, const std::string& message, Detail detail) {
  const bool replied = state_ == State::kReplied || state_ == State::kAwaitReadResponse;
  state_ = State::kDone;
  HandshakeStep step;
  step.event = replied ? Event::kLost : Event::kFailed;
  step.close = Close::kReset;
  step.status = Status(code, message, detail);
  return step;
}

HandshakeStep ActiveHandshake::OnClosed(Ending ending) {
  if (state_ == State::kDone) return {};
  if (ending == Ending::kTimeout) {
    return Fail(StatusCode::kIoTimeout, "the other side does not answer any more", Detail::kWireTimeout);
  }
  if (state_ == State::kReplied || state_ == State::kAwaitReadResponse) {
    return Fail(StatusCode::kConnectionAborted, "the other side withdrew after accepting",
                Detail::kPeerWithdrew);
  }
  if (config_.mode == PortMode::kSeparate) {
    return Fail(StatusCode::kHostUnreachable,
                "the other host's broker closed the connection without an answer", Detail::kPeerBrokerLost);
  }
  return Fail(StatusCode::kConnectionRefused, "the other side closed the connection without an answer",
              Detail::kTransport);
}

HandshakeStep ActiveHandshake::Confirm() {
  wire::Check(state_ == State::kReplied, "only a replied handshake is confirmed");
  HandshakeStep step;
  if (rtr_ == Rtr::kRead) {
    step.send = handshake_internal::RtrReadFrame(agreement_.crc);
    agreement_.read_msn_out = 2;
    state_ = State::kAwaitReadResponse;
    return step;
  }
  if (rtr_ == Rtr::kWrite) step.send = handshake_internal::RtrWriteFrame(agreement_.crc);
  state_ = State::kDone;
  step.event = Event::kEstablished;
  return step;
}

HandshakeStep ActiveHandshake::OnReadResponse(wire::ByteSpan unread) {
  constexpr std::size_t kUlpdu = wire::kTaggedHeaderSize;
  if (unread.size() >= wire::kFpduHeaderSize && wire::LoadBig<std::uint16_t>(unread.data()) != kUlpdu) {
    return Fail(StatusCode::kConnectionAborted,
                "something else came instead of the answer to the confirmation", Detail::kProtocol);
  }
  const wire::FpduDecoded frame = wire::DecodeFpdu(unread, agreement_.crc);
  if (frame.verdict != wire::Verdict::kComplete) return {};
  wire::Segment segment;
  if (!frame.crc_ok || wire::DecodeSegment(frame.ulpdu, &segment) ||
      segment.opcode != wire::Opcode::kReadResponse || !segment.last) {
    return Fail(StatusCode::kConnectionAborted, "the answer to the confirmation is damaged",
                Detail::kProtocol);
  }
  state_ = State::kDone;
  HandshakeStep step;
  step.event = Event::kEstablished;
  step.consumed = frame.size;
  return step;
}

HandshakeStep ActiveHandshake::Reject(const Bytes& private_data) {
  wire::Check(state_ == State::kReplied, "only a replied handshake is rejected");
  state_ = State::kDone;
  HandshakeStep step;
  step.close = Close::kGraceful;
  // Only ndbroker treats a Send before the RTR frame as a rejection.
  if (config_.mode == PortMode::kSeparate && !private_data.empty()) {
    wire::Check(private_data.size() <= kMaxSeparateData, "the core has bounded the private data of Reject");
    step.send = handshake_internal::SendFrame(private_data, 1, agreement_.crc);
  }
  const Bytes terminate =
      handshake_internal::TerminateFrame(wire::fault::kStreamCatastrophic, agreement_.crc);
  step.send.insert(step.send.end(), terminate.begin(), terminate.end());
  return step;
}

}  // namespace nd::provider::soft
