// SPDX-License-Identifier: Apache-2.0
// Judges one segment by its kind, and places it.
#include <algorithm>
#include <cstring>

#include "provider/soft/qp/iwarp/faults.h"
#include "provider/soft/qp/iwarp/receiver.h"

namespace nd::provider::soft {
namespace {

auto CopyFrom(wire::ByteSpan payload) {
  return [payload](std::byte* to, std::size_t skip, std::size_t size) {
    std::memcpy(to, payload.data() + skip, size);
  };
}

}  // namespace

bool IwarpReceiver::Violation(const wire::Fault& fault, wire::ByteSpan ulpdu) {
  last_words_ = wire::MakeTerminate(fault, ulpdu);
  state_.queue_pair.EndConnection(EndCode::kProtocol);
  return false;
}

bool IwarpReceiver::Handle(wire::ByteSpan ulpdu) {
  wire::Segment segment;
  if (const auto fault = wire::DecodeSegment(ulpdu, &segment, state_.extensions))
    return Violation(*fault, ulpdu);
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
    case wire::Opcode::kImmediate:
    case wire::Opcode::kImmediateSolicited:
      return HandleImmediate(segment, ulpdu);
    case wire::Opcode::kAtomicRequest:
      return HandleAtomicRequest(segment, ulpdu);
    case wire::Opcode::kAtomicResponse:
      return HandleAtomicResponse(segment, ulpdu);
    default:
      return HandleSend(segment, ulpdu);
  }
}

bool IwarpReceiver::HandleSend(const wire::Segment& segment, wire::ByteSpan ulpdu) {
  if (segment.msn != send_msn_) return Violation(wire::fault::kMsnRange, ulpdu);
  if (segment.message_offset != arriving_.arrived()) return Violation(wire::fault::kMessageOffset, ulpdu);
  const auto size = static_cast<std::uint32_t>(segment.payload.size());
  if (arriving_.Skip(size, segment.last)) {
    if (segment.last) {
      ++send_msn_;
      if (!arriving_.given_up()) ++state_.messages_in;
    }
    return true;
  }
  const bool drops = arriving_.MustDrop();
  ReceiveRequest* receive = drops ? nullptr : arriving_.Find();
  if (drops || (receive == nullptr && state_.goodbye_sent)) {
    // The sender counts it as undelivered: it abandoned it or will see our goodbye first. Its own end
    // follows.
    arriving_.Drop(size, segment.last);
    if (segment.last) ++send_msn_;
    return true;
  }
  if (receive == nullptr) {
    if (arriving_.Hold()) looked_to_ = begin_;
    return false;
  }
  arriving_.Open(*receive);
  if (!arriving_.Fits(*receive, size)) {
    last_words_ = wire::MakeTerminate(wire::fault::kMessageTooLong, ulpdu);
    arriving_.RefuseLength();
    return false;
  }
  if (!arriving_.Place(size, CopyFrom(segment.payload))) {
    last_words_ = wire::MakeTerminate(wire::fault::kOperationUnspecified, ulpdu);
    arriving_.RefuseMemory();
    return false;
  }
  if (!segment.last) return true;
  if (wire::Invalidates(segment.opcode) && !state_.queue_pair.InvalidateByPeer(segment.invalidate_stag)) {
    return Violation(wire::fault::kInvalidStag, ulpdu);
  }
  ++send_msn_;
  ++state_.messages_in;
  const bool immediate = wire::CarriesImmediate(segment.opcode);
  const std::uint8_t flags = immediate                           ? kCompletionImmediate
                             : wire::Invalidates(segment.opcode) ? kCompletionInvalidated
                                                                 : 0;
  arriving_.Complete(wire::IsSolicited(segment.opcode), flags, flags != 0 ? segment.invalidate_stag : 0);
  return true;
}

bool IwarpReceiver::HandleImmediate(const wire::Segment& segment, wire::ByteSpan ulpdu) {
  if (segment.msn != send_msn_) return Violation(wire::fault::kMsnRange, ulpdu);
  if (arriving_.incomplete()) return Violation(wire::fault::kMessageOffset, ulpdu);
  const wire::Immediate immediate = wire::DecodeImmediate(segment.payload);
  if (immediate.length > kMaxTransferLength) return Violation(wire::fault::kOperationUnspecified, ulpdu);
  const bool drops = arriving_.MustDrop();
  const ReceiveRequest* receive = drops ? nullptr : arriving_.Find();
  if (drops || (receive == nullptr && state_.goodbye_sent)) {
    ++send_msn_;  // As a Send: the sender counts it as undelivered.
    return true;
  }
  if (receive == nullptr) {
    if (arriving_.Hold()) looked_to_ = begin_;
    return false;
  }
  ++send_msn_;
  ++state_.messages_in;
  arriving_.CompleteWrite(immediate.length, immediate.data, wire::IsSolicited(segment.opcode));
  return true;
}

bool IwarpReceiver::HandleWrite(const wire::Segment& segment, wire::ByteSpan ulpdu) {
  const auto size = static_cast<std::uint32_t>(segment.payload.size());
  // An empty Write to STag 0: the ready-to-receive frame of RFC 6581, or the count that an ndbroker peer
  // reports before its goodbye.
  if (size == 0 && segment.stag == 0) return !state_.own_peer || HandleReport(segment.offset, ulpdu);
  const SoftQueuePair::Refusal why = PlaceWrite(state_.queue_pair, segment.stag, segment.offset, size,
                                                segment.last, CopyFrom(segment.payload));
  if (why != SoftQueuePair::Refusal::kNone) return Violation(WriteFault(why), ulpdu);
  if (segment.last) ++state_.messages_in;
  return true;
}

bool IwarpReceiver::HandleReport(std::uint64_t count, wire::ByteSpan ulpdu) {
  if (count > state_.messages_out) return Violation(wire::fault::kDdpBounds, ulpdu);
  const auto& queue = state_.queue_pair.initiator();
  std::uint64_t end = state_.confirm_end;
  for (std::uint64_t missing = state_.messages_out - count; missing != 0 && end > queue.tail;) {
    missing -= std::min<std::uint64_t>(missing, Messages(queue.at(--end)));
  }
  if (end <= queue.tail) return true;
  // The memory of confirmed requests returns to the application, even if the peer confirmed falsely.
  state_.batch.CopyRest();
  state_.queue_pair.ConfirmBefore(end);
  return true;
}

bool IwarpReceiver::HandleReadRequest(const wire::Segment& segment, wire::ByteSpan ulpdu) {
  if (segment.msn != read_msn_) return Violation(wire::fault::kMsnRange, ulpdu);
  if (state_.responses.full()) return Violation(wire::fault::kNoBuffer, ulpdu);
  const wire::ReadRequest request = wire::DecodeReadRequest(segment.payload);
  SoftQueuePair::Refusal why;
  if (request.size > kMaxTransferLength) return Violation(wire::fault::kBounds, ulpdu);
  if (request.size != 0 && state_.queue_pair.RemoteTarget(request.source_stag, request.source_offset,
                                                          request.size, kAllowRemoteRead, &why) == nullptr) {
    return Violation(ReadFault(why), ulpdu);
  }
  if (request.sink_offset > UINT64_MAX - request.size) return Violation(wire::fault::kRdmapOffsetWrap, ulpdu);
  ++read_msn_;
  state_.confirmed_in = state_.messages_in;
  if (request.size == 0) ++state_.empty_responses;
  state_.responses.Push({request, 0, false, {}});
  return true;
}

// The operation itself is done with its answer, in the order of the Reads.
bool IwarpReceiver::HandleAtomicRequest(const wire::Segment& segment, wire::ByteSpan ulpdu) {
  if (segment.msn != read_msn_) return Violation(wire::fault::kMsnRange, ulpdu);
  if (state_.responses.full()) return Violation(wire::fault::kNoBuffer, ulpdu);
  const auto operation = wire::DecodeAtomicRequest(segment.payload);
  if (!operation || operation->offset % kAtomicSize != 0) {
    return Violation(wire::fault::kOperationUnspecified, ulpdu);
  }
  SoftQueuePair::Refusal why;
  if (state_.queue_pair.RemoteTarget(operation->stag, operation->offset, kAtomicSize, kAllowRemoteAtomic,
                                     &why) == nullptr) {
    return Violation(ReadFault(why), ulpdu);
  }
  ++read_msn_;
  state_.confirmed_in = state_.messages_in;
  wire::ReadRequest size;
  size.size = kAtomicSize;
  state_.responses.Push({size, 0, true, *operation});
  return true;
}

bool IwarpReceiver::HandleReadResponse(const wire::Segment& segment, wire::ByteSpan ulpdu) {
  if (state_.reads.empty()) return Violation(wire::fault::kUnexpectedOpcode, ulpdu);
  const IwarpRead& read = state_.reads.oldest();
  // An answer to a request that has not left this side completely.
  if (read.atomic || state_.batch.stream_sent() < read.wire_end) {
    return Violation(wire::fault::kUnexpectedOpcode, ulpdu);
  }
  const auto size = static_cast<std::uint32_t>(segment.payload.size());
  if (segment.stag != read.sink_stag) return Violation(wire::fault::kDdpInvalidStag, ulpdu);
  if (segment.offset != read.done || !read.Expects(size, segment.last)) {
    return Violation(wire::fault::kDdpBounds, ulpdu);
  }
  if (!state_.reads.Place(size, CopyFrom(segment.payload))) return false;
  if (segment.last) FinishRead();
  return true;
}

bool IwarpReceiver::HandleAtomicResponse(const wire::Segment& segment, wire::ByteSpan ulpdu) {
  if (segment.msn != atomic_response_msn_) return Violation(wire::fault::kMsnRange, ulpdu);
  if (state_.reads.empty() || !state_.reads.oldest().atomic) {
    return Violation(wire::fault::kUnexpectedOpcode, ulpdu);
  }
  const IwarpRead& read = state_.reads.oldest();
  const wire::AtomicResponse answer = wire::DecodeAtomicResponse(segment.payload);
  if (state_.batch.stream_sent() < read.wire_end || answer.id != read.sink_stag) {
    return Violation(wire::fault::kUnexpectedOpcode, ulpdu);
  }
  ++atomic_response_msn_;
  const auto* const before = reinterpret_cast<const std::byte*>(&answer.before);
  if (!state_.reads.Place(kAtomicSize, CopyFrom({before, kAtomicSize}))) return false;
  FinishRead();
  return true;
}

void IwarpReceiver::FinishRead() {
  const IwarpRead& read = state_.reads.Finish();
  if (read.confirmation) state_.confirmation_in_flight = false;
  if (state_.confirm) state_.queue_pair.ConfirmBefore(read.confirms);
  if (read.request != kNoRequest && state_.queue_pair.live()) {
    state_.queue_pair.CompleteInitiator(state_.queue_pair.initiator().at(read.request));
  }
}

void IwarpReceiver::HandleTerminate(const wire::Segment& segment) {
  SoftQueuePair& queue_pair = state_.queue_pair;
  const auto words = wire::DecodeTerminate(segment.payload, wire::DetectTerminateLayout(segment.payload));
  if (!words) return queue_pair.OnTransportLost(DisconnectReason::kUnknown);
  const wire::Fault& fault = words->fault;
  state_.cause = EndedBy("The other side", fault);
  const EndCode why = EndCodeOf(fault);
  if (words->ddp_header) {
    const auto failed = RequestOf(queue_pair.initiator(), *words->ddp_header);
    if (failed) return queue_pair.FailAt(*failed, why);
  }
  // An error of the peer, or one that names no request of this side.
  const bool theirs = fault.layer == wire::Layer::kLlp;
  queue_pair.OnTransportLost(DisconnectReason::kUnknown,
                             theirs ? StatusCode::kCanceled : StatusOfFailedRequest(why));
}

}  // namespace nd::provider::soft
