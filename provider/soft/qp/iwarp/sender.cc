// SPDX-License-Identifier: Apache-2.0
#include "provider/soft/qp/iwarp/sender.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "provider/soft/qp/iwarp/first_part.h"
#include "provider/soft/qp/transfer/atomic_operation.h"
#include "provider/soft/qp/transfer/placement.h"
#include "provider/soft/transports.h"
#include "provider/soft/wire/mpa.h"

namespace nd::provider::soft {
namespace {

constexpr int kBatchesPerPump = 8;
constexpr std::uint64_t kGatherBehind = 8;  // Unfinished requests that make a stream.
constexpr std::uint64_t kGatherUpTo = 16;
// The limit of bytes that a goodbye drains: more than a socket holds, and bounded, so that a peer cannot
// delay the end for ever.
constexpr std::uint64_t kMaxDrained = 8 * 1024 * 1024;

}  // namespace

IwarpSender::IwarpSender(IwarpState& state, const HandOffRecord& record, std::uint32_t max_ulpdu)
    : state_(state),
      max_ulpdu_(max_ulpdu),
      send_msn_(PayloadOf<IwarpPayload>(record).send_msn_out),
      read_msn_(PayloadOf<IwarpPayload>(record).read_msn_out) {}

void IwarpSender::OnPost() {
  patience_.OnPost();
  if (Gathers()) {
    state_.runnable = true;
    return;
  }
  Pump();
}

bool IwarpSender::OnRound(bool received) {
  if (!received) ++quiet_polls_;
  patience_.OnRound();
  // The answer to a confirmation can be sent with the next data of the application.
  if (!Urgent() && (received || (state_.empty_responses != 0 && !patience_.GoesAlone()))) {
    state_.runnable = state_.runnable || state_.empty_responses != 0;
    return received;
  }
  return Pump() || received;
}

void IwarpSender::OnSleep() {
  quiet_polls_ = kQuietPolls;  // A sleeper does not count polls.
  if (state_.queue_pair.live()) Pump();
}

void IwarpSender::OnFlush() {
  state_.reads.Flush([](IwarpRead& read) { read.confirms = 0; });
  state_.batch.CopyRest();
  batch_end_ = 0;
  if (partial_.active()) broken_ = state_.runnable = true;
  partial_.End();
  confirmed_to_ = state_.confirm_end = 0;
}

std::uint32_t IwarpSender::Room(wire::Opcode opcode) const {
  return static_cast<std::uint32_t>((max_ulpdu_ - wire::HeaderSize(opcode)) & ~std::size_t{7});
}

bool IwarpSender::FrameAtomicResponse(IwarpResponse& answer) {
  const wire::AtomicRequest& operation = answer.operation;
  std::byte* const word = AtomicTarget(state_.queue_pair, operation.stag, operation.offset);
  if (word == nullptr) return false;
  const std::uint64_t before =
      Operate(word, operation.compares, {.value = operation.value, .compare = operation.compare});
  std::byte payload[wire::kAtomicResponseSize];
  wire::EncodeAtomicResponse({operation.id, before}, payload);
  wire::Segment segment;
  segment.opcode = wire::Opcode::kAtomicResponse;
  segment.msn = atomic_response_msn_++;
  state_.batch.AddCopy(segment, payload, sizeof payload);
  QpCounters::Add(state_.queue_pair.counters().rx_reads, 1);
  state_.responses.Pop();
  return true;
}

bool IwarpSender::FrameResponse() {
  IwarpResponse& read = state_.responses.oldest();
  if (read.atomic) return FrameAtomicResponse(read);
  const std::uint32_t size = std::min(read.request.size - read.done, Room(wire::Opcode::kReadResponse));
  const std::byte* from = nullptr;
  if (size != 0) {
    from = ResponseSource(state_.queue_pair, read.request.source_stag, read.request.source_offset + read.done,
                          size);
    if (from == nullptr) return false;
  }
  wire::Segment segment;
  segment.opcode = wire::Opcode::kReadResponse;
  segment.stag = read.request.sink_stag;
  segment.offset = read.request.sink_offset + read.done;
  segment.last = read.done + size == read.request.size;
  state_.batch.AddCopy(segment, from, size);
  read.done += size;
  if (!segment.last) return true;
  if (read.request.size == 0) {
    --state_.empty_responses;
  } else {
    QpCounters::Add(state_.queue_pair.counters().rx_reads, 1);
  }
  state_.responses.Pop();
  return true;
}

void IwarpSender::FrameReadRequest(InitiatorRequest* request) {
  const std::uint64_t position = state_.queue_pair.initiator().next;
  IwarpRead& read = state_.reads.Start({});
  read.confirms = position;
  wire::ReadRequest body;
  std::byte payload[wire::kAtomicRequestSize];
  std::uint32_t size = wire::kReadRequestSize;
  wire::Segment segment;
  segment.opcode = wire::Opcode::kReadRequest;
  if (request != nullptr) {
    read.request = position;
    // Only compared with the response; it gives access to no memory.
    body.sink_stag = read.sink_stag = (read_msn_ * 2654435761u) | 1u;
    body.size = read.size = request->list.length;
    read.sink = SgeCursor(request->list);
    request->mark = read_msn_;
    body.source_stag = request->token;
    body.source_offset = request->remote_address;
    state_.queue_pair.Started(*request);
  } else {
    read.confirmation = true;
    state_.confirmation_in_flight = true;
  }
  confirmed_to_ = position;
  awaited_ = false;
  if (request != nullptr && IsAtomic(request->op)) {
    read.atomic = true;
    segment.opcode = wire::Opcode::kAtomicRequest;
    size = wire::kAtomicRequestSize;
    wire::EncodeAtomicRequest({request->op == Op::kCompareSwap, read.sink_stag, request->token,
                               request->remote_address, request->operands.value, request->operands.compare},
                              payload);
  } else {
    wire::EncodeReadRequest(body, payload);
  }
  segment.msn = read_msn_++;
  state_.batch.AddCopy(segment, payload, size);
  read.wire_end = state_.batch.stream_framed();
}

bool IwarpSender::FrameRequest() {
  SoftQueuePair& queue_pair = state_.queue_pair;
  if (!partial_.active()) {
    if (state_.goodbye_wanted) return false;
    InitiatorRequest* next = queue_pair.NextToStart();
    if (next == nullptr || !queue_pair.live()) return false;
    if (IsAnswered(next->op)) {
      if (state_.reads.full()) return false;
      FrameReadRequest(next);
      return true;
    }
    partial_.Begin(queue_pair.initiator().next, next->list);
    next->mark =
        next->op == Op::kWrite ? 0 : send_msn_++;  // Of a Write with immediate: that of Immediate Data.
    queue_pair.Started(*next);
  }
  InitiatorRequest& request = queue_pair.initiator().at(partial_.position);
  if (request.op == Op::kWriteImmediate && partial_.done == request.list.length) {
    FrameImmediate(request);
    return true;
  }
  wire::Segment segment;
  const bool solicit = (request.flags & kOpSendAndSolicit) != 0;
  if (IsWrite(request.op)) {
    segment.opcode = wire::Opcode::kWrite;
    segment.stag = request.token;
    // An empty Write to STag 0 with an offset would report a count.
    segment.offset = Messages(request) != 0 ? request.remote_address + partial_.done : 0;
  } else {
    segment.opcode = request.op == Op::kSendInvalidate
                         ? (solicit ? wire::Opcode::kSendSolicitedInvalidate : wire::Opcode::kSendInvalidate)
                         : (solicit ? wire::Opcode::kSendSolicited : wire::Opcode::kSend);
    segment.invalidate_stag = request.op == Op::kSendInvalidate ? request.token : 0;
    if (request.op == Op::kSendImmediate) {
      segment.opcode = solicit ? wire::Opcode::kSendSolicitedImmediate : wire::Opcode::kSendImmediate;
      segment.invalidate_stag = request.operands.immediate;
    }
    segment.msn = static_cast<std::uint32_t>(request.mark);
    segment.message_offset = partial_.done;
  }
  const std::uint32_t size = std::min(request.list.length - partial_.done, Room(segment.opcode));
  segment.last = partial_.done + size == request.list.length;
  state_.batch.Add(segment, partial_.from, size);
  partial_.done += size;
  if (segment.last && request.op != Op::kWriteImmediate) FinishRequest(request);
  return true;
}

void IwarpSender::FrameImmediate(const InitiatorRequest& request) {
  std::byte payload[wire::kImmediateSize];
  wire::EncodeImmediate({request.operands.immediate, request.list.length}, payload);
  wire::Segment segment;
  const bool solicit = (request.flags & kOpSendAndSolicit) != 0;
  segment.opcode = solicit ? wire::Opcode::kImmediateSolicited : wire::Opcode::kImmediate;
  segment.msn = static_cast<std::uint32_t>(request.mark);
  state_.batch.AddCopy(segment, payload, sizeof payload);
  FinishRequest(request);
}

void IwarpSender::FinishRequest(const InitiatorRequest& request) {
  batch_end_ = state_.confirm_end = partial_.position + 1;
  partial_.End();
  quiet_polls_ = 0;
  state_.messages_out += Messages(request);
  if ((request.flags & kOpSilentSuccess) == 0) awaited_ = true;
}

bool IwarpSender::NeedsConfirmation() const {
  if (!state_.confirm || state_.confirmation_in_flight || partial_.active() ||
      state_.confirm_end <= confirmed_to_ || state_.reads.full()) {
    return false;
  }
  // A silent request has no waiter, and the next request may carry the confirmation.
  return awaited_ || quiet_polls_ >= kQuietPolls || !state_.queue_pair.application_polls() ||
         state_.queue_pair.initiator().half_full();
}

// In a stream of an application that polls, several small requests share one system call. The next poll makes
// it, at the latest the progress thread, whose next visit is due.
bool IwarpSender::Gathers() const {
  const auto& queue = state_.queue_pair.initiator();
  return state_.confirmation_in_flight && queue.next - queue.tail >= kGatherBehind &&
         queue.head - queue.next < kGatherUpTo &&
         queue.at(queue.head - 1).list.length < FrameBatch::kCopyBelow &&
         state_.queue_pair.application_polls();
}

bool IwarpSender::Urgent() const {
  const auto& queue = state_.queue_pair.initiator();
  return !state_.batch.sent() || partial_.active() || queue.next != queue.head ||
         state_.responses.size() != state_.empty_responses || NeedsConfirmation() || state_.goodbye_wanted;
}

bool IwarpSender::InsideMessage() {
  return partial_.active() || (!state_.responses.empty() && state_.responses.oldest().done != 0);
}

bool IwarpSender::Fill() {
  SoftQueuePair& queue_pair = state_.queue_pair;
  state_.batch.Begin();
  batch_end_ = 0;
  const auto& queue = queue_pair.initiator();
  const bool peer_waits =
      PeerWaits({.inside_message = InsideMessage(),
                 .unconfirmed = !state_.confirm || queue.tail != queue.next,
                 .heard = std::exchange(heard_, state_.messages_in) != state_.messages_in});
  bool more = true;
  while (more && queue_pair.live() && !broken_ && state_.batch.HasRoom() &&
         !EndsFirstPart(peer_waits, InsideMessage(), state_.batch.bytes())) {
    // Alternates, so that requests and responses do not starve each other.
    more = !state_.responses.empty() && FrameResponse();
    if (!queue_pair.live()) return false;
    more |= FrameRequest();
    if (!queue_pair.live()) return false;
    if (!more && NeedsConfirmation() && !state_.goodbye_wanted) {
      FrameReadRequest(nullptr);
      more = true;
    }
  }
  return !state_.batch.empty();
}

bool IwarpSender::Pump() {
  SoftQueuePair& queue_pair = state_.queue_pair;
  FrameBatch& batch = state_.batch;
  bool moved = false;
  int batches = 0;
  for (; batches < kBatchesPerPump && queue_pair.live(); ++batches) {
    if (batch.sent() && (state_.goodbye_sent || batch.failed() || !Fill())) break;
    const std::size_t before = batch.pieces_sent();
    const bool whole = batch.Flush();
    moved |= whole || batch.pieces_sent() != before;
    if (!whole) return moved;
    if (!state_.confirm && batch_end_ != 0) queue_pair.ConfirmBefore(std::exchange(batch_end_, 0));
  }
  if (!queue_pair.live()) return moved;
  if (batches == kBatchesPerPump) {
    state_.runnable = true;  // More requests or responses may wait without an event.
  } else if (state_.goodbye_wanted) {
    TryGoodbye();
  }
  return moved;
}

void IwarpSender::TryGoodbye() {
  if (state_.goodbye_sent || state_.batch.failed() || !state_.batch.sent() || partial_.active()) return;
  if (!state_.responses.empty() || (!state_.drained && state_.drained_bytes < kMaxDrained)) {
    state_.runnable = true;
    return;
  }
  // A Read Request that confirms these would come too late to be answered.
  if (state_.own_peer && state_.messages_in != state_.confirmed_in) ReportReceived();
  EndOutput();
}

// Between ndbroker peers an empty Write to STag 0 carries in its offset the number of received Sends and
// Writes.
void IwarpSender::ReportReceived() {
  state_.batch.Begin();
  batch_end_ = 0;
  wire::Segment segment;
  segment.opcode = wire::Opcode::kWrite;
  segment.offset = state_.confirmed_in = state_.messages_in;
  state_.batch.AddCopy(segment, nullptr, 0);
}

void IwarpSender::EndOutput() {
  if (state_.goodbye_sent || !state_.batch.Flush() || partial_.active()) return;
  state_.goodbye_sent = true;
  os::ResetOnClose(state_.socket.get(), false);
  os::ShutDown(state_.socket.get(), os::Direction::kSend);
}

bool IwarpSender::Terminate(const wire::Terminate& words) {
  state_.batch.Flush();
  if (!state_.batch.sent()) return true;
  std::byte frame[wire::FpduSize(wire::kUntaggedHeaderSize + wire::kMaxTerminateSize)];
  wire::Segment segment;
  segment.opcode = wire::Opcode::kTerminate;
  segment.msn = 1;
  std::size_t size = wire::EncodeSegmentHeader(segment, frame + wire::kFpduHeaderSize);
  std::byte payload[wire::kMaxTerminateSize];
  const std::size_t length = wire::EncodeTerminate(words, wire::TerminateLayout::kRfc, payload);
  std::memcpy(frame + wire::kFpduHeaderSize + size, payload, length);
  size = wire::SealFpdu(frame, size + length, state_.crc);
  return os::Send(state_.socket.get(), frame, size) > 0;
}

}  // namespace nd::provider::soft
