// SPDX-License-Identifier: Apache-2.0
// The sender: frames are gathered from the payload in place, several per system call.
#include <algorithm>
#include <cerrno>
#include <cstring>

#include "provider/soft/qp/iwarp_transport.h"
#include "provider/soft/wire/crc32c.h"

namespace nd::provider::soft {
namespace {

constexpr std::size_t kStageSize = 256 * 1024;
constexpr std::size_t kBatchBytes = 256 * 1024;
constexpr std::size_t kMaxPieces = 256;   // Kernels take 1024.
constexpr std::size_t kCopyBelow = 4096;  // Smaller payloads are copied beside their header.
constexpr std::size_t kLargestFrame = 66 * 1024;
constexpr std::size_t kPiecesPerFrame = kMaxSge + 2;
constexpr int kBatchesPerPump = 8;
constexpr std::uint64_t kGatherBehind = 8;  // Unfinished requests that make a stream.
constexpr std::uint64_t kGatherUpTo = 16;

}  // namespace

IwarpTransport::IwarpTransport(SoftQueuePair& queue_pair, const HandOffRecord& record,
                               std::uint32_t max_ulpdu, UniqueFd socket)
    : queue_pair_(queue_pair),
      socket_(std::move(socket)),
      crc_((record.flags & kHandOffCrc) != 0),
      own_peer_((record.flags & kHandOffConfirm) != 0),
      confirm_(own_peer_ && record.read_outbound != 0),
      read_inbound_(record.read_inbound),
      read_outbound_(record.read_outbound),
      max_ulpdu_(max_ulpdu),
      stage_(new std::byte[kStageSize]),
      send_msn_(record.send_msn_out),
      read_msn_(record.read_msn_out),
      send_msn_in_(record.send_msn_in),
      read_msn_in_(record.read_msn_in),
      reads_(std::max<std::uint32_t>(read_outbound_, 1)),
      responses_(std::max<std::uint32_t>(read_inbound_, 1)) {
  batch_.reserve(kMaxPieces + 2 * kPiecesPerFrame);
}

std::byte* IwarpTransport::Stage(std::size_t size) {
  std::byte* at = stage_.get() + stage_used_;
  stage_used_ += size;
  batch_bytes_ += size;
  bytes_framed_ += size;
  if (!batch_.empty() && batch_.back().data + batch_.back().size == at) {
    batch_.back().size += size;
  } else {
    batch_.push_back({at, size});
  }
  return at;
}

void IwarpTransport::Reference(const std::byte* data, std::size_t size) {
  batch_.push_back({data, size});
  batch_bytes_ += size;
  bytes_framed_ += size;
}

std::uint32_t IwarpTransport::Room(wire::Opcode opcode) const {
  return static_cast<std::uint32_t>((max_ulpdu_ - wire::HeaderSize(opcode)) & ~std::size_t{7});
}

void IwarpTransport::Frame(const wire::Segment& segment, SgeCursor* cursor, const std::byte* from,
                           std::uint32_t size) {
  const std::size_t header = wire::HeaderSize(segment.opcode);
  const std::size_t ulpdu = header + size;
  std::byte* front = Stage(wire::kFpduHeaderSize + header);
  wire::StoreBig<std::uint16_t>(front, static_cast<std::uint16_t>(ulpdu));
  wire::EncodeSegmentHeader(segment, front + wire::kFpduHeaderSize);
  std::uint32_t crc = crc_ ? wire::Crc32c({front, wire::kFpduHeaderSize + header}) : 0;
  for (std::uint32_t done = 0; done < size;) {
    wire::ByteSpan piece;
    if (cursor != nullptr) {
      piece = cursor->Next(size - done);
    } else {
      piece = wire::ByteSpan(from, size);
    }
    // Memory that a peer reads may change meanwhile; a copy and its CRC cannot.
    if (cursor == nullptr || size < kCopyBelow) {
      std::byte* to = Stage(piece.size());
      if (crc_) {
        crc = wire::CopyAndExtendCrc32c(crc, to, piece);
      } else {
        std::memcpy(to, piece.data(), piece.size());
      }
    } else {
      Reference(piece.data(), piece.size());
      if (crc_) crc = wire::ExtendCrc32c(crc, piece);
    }
    done += static_cast<std::uint32_t>(piece.size());
  }
  const wire::FpduTrailer trailer = wire::MakeFpduTrailer(ulpdu, crc, crc_);
  std::memcpy(Stage(trailer.size), trailer.bytes, trailer.size);
  QpCounters::Add(queue_pair_.counters().wire_frames, 1);
}

bool IwarpTransport::FrameResponse() {
  InboundRead& read = responses_[responses_tail_ % responses_.size()];
  const std::uint32_t size = std::min(read.request.size - read.done, Room(wire::Opcode::kReadResponse));
  SoftQueuePair::Refusal why;
  const std::uint64_t source = read.request.source_offset + read.done;
  const std::byte* from = nullptr;
  if (size != 0) {
    from = queue_pair_.RemoteTarget(read.request.source_stag, source, size, kAllowRemoteRead, &why);
    if (from == nullptr) {
      queue_pair_.EndConnection(EndCode::kRemoteAccess);
      return false;
    }
  }
  wire::Segment segment;
  segment.opcode = wire::Opcode::kReadResponse;
  segment.stag = read.request.sink_stag;
  segment.offset = read.request.sink_offset + read.done;
  segment.last = read.done + size == read.request.size;
  Frame(segment, nullptr, from, size);
  read.done += size;
  if (!segment.last) return true;
  if (read.request.size == 0) {
    --empty_responses_;
  } else {
    QpCounters::Add(queue_pair_.counters().rx_reads, 1);
  }
  ++responses_tail_;
  return true;
}

bool IwarpTransport::FrameReadRequest(InitiatorRequest* request) {
  const std::uint64_t position = queue_pair_.initiator().next;
  OutboundRead& read = reads_[reads_head_ % reads_.size()];
  read = {};
  read.confirms = position;
  wire::ReadRequest body;
  if (request != nullptr) {
    read.request = position;
    read.size = request->list.length;
    // Only compared with the response; it gives access to no memory.
    read.sink_stag = (read_msn_ * 2654435761u) | 1u;
    read.sink = SgeCursor(request->list);
    request->mark = read_msn_;
    body.source_stag = request->token;
    body.source_offset = request->remote_address;
    queue_pair_.Started(*request);
  } else {
    read.confirmation = true;
    confirmation_in_flight_ = true;
  }
  body.sink_stag = read.sink_stag;
  body.size = read.size;
  ++reads_head_;
  confirmed_to_ = position;
  awaited_ = false;
  std::byte payload[wire::kReadRequestSize];
  wire::EncodeReadRequest(body, payload);
  wire::Segment segment;
  segment.opcode = wire::Opcode::kReadRequest;
  segment.msn = read_msn_++;
  Frame(segment, nullptr, payload, sizeof payload);
  read.wire_end = bytes_framed_;
  QpCounters& counters = queue_pair_.counters();
  const std::uint32_t flying = reads_head_ - reads_tail_;
  counters.reads_in_flight.store(flying, std::memory_order_relaxed);
  if (flying > counters.reads_in_flight_max.load(std::memory_order_relaxed)) {
    counters.reads_in_flight_max.store(flying, std::memory_order_relaxed);
  }
  return true;
}

bool IwarpTransport::FrameRequest() {
  if (partial_ == kNone) {
    if (goodbye_wanted_) return false;
    InitiatorRequest* next = queue_pair_.NextToStart();
    if (next == nullptr || !queue_pair_.live()) return false;
    if (next->op == Op::kRead) {
      return reads_head_ - reads_tail_ < read_outbound_ && FrameReadRequest(next);
    }
    partial_ = queue_pair_.initiator().next;
    partial_from_ = SgeCursor(next->list);
    partial_done_ = 0;
    next->mark = next->op == Op::kWrite ? 0 : send_msn_++;
    queue_pair_.Started(*next);
  }
  InitiatorRequest& request = queue_pair_.initiator().at(partial_);
  wire::Segment segment;
  const bool solicit = (request.flags & kOpSendAndSolicit) != 0;
  if (request.op == Op::kWrite) {
    segment.opcode = wire::Opcode::kWrite;
    segment.stag = request.token;
    // An empty Write to STag 0 with an offset would report a count.
    segment.offset = Counts(request) ? request.remote_address + partial_done_ : 0;
  } else {
    segment.opcode = request.op == Op::kSendInvalidate
                         ? (solicit ? wire::Opcode::kSendSolicitedInvalidate : wire::Opcode::kSendInvalidate)
                         : (solicit ? wire::Opcode::kSendSolicited : wire::Opcode::kSend);
    segment.invalidate_stag = request.op == Op::kSendInvalidate ? request.token : 0;
    segment.msn = static_cast<std::uint32_t>(request.mark);
    segment.message_offset = partial_done_;
  }
  const std::uint32_t size = std::min(request.list.length - partial_done_, Room(segment.opcode));
  segment.last = partial_done_ + size == request.list.length;
  Frame(segment, &partial_from_, nullptr, size);
  partial_done_ += size;
  if (segment.last) {
    batch_end_ = confirm_end_ = partial_ + 1;
    partial_ = kNone;
    quiet_polls_ = 0;
    if (Counts(request)) ++messages_out_;
    if ((request.flags & kOpSilentSuccess) == 0) awaited_ = true;
  }
  return true;
}

bool IwarpTransport::NeedsConfirmation() const {
  if (!confirm_ || confirmation_in_flight_ || partial_ != kNone || confirm_end_ <= confirmed_to_ ||
      reads_head_ - reads_tail_ >= read_outbound_) {
    return false;
  }
  // A silent request has no waiter, and the next request may carry the confirmation.
  return awaited_ || quiet_polls_ >= kQuietPolls || !queue_pair_.application_polls() ||
         queue_pair_.initiator().half_full();
}

// In a stream of an application that polls, several small requests share one system call. The next poll makes
// it, at the latest the progress thread, whose next visit is due.
bool IwarpTransport::Gathers() const {
  const auto& queue = queue_pair_.initiator();
  return confirmation_in_flight_ && queue.next - queue.tail >= kGatherBehind &&
         queue.head - queue.next < kGatherUpTo && queue.at(queue.head - 1).list.length < kCopyBelow &&
         queue_pair_.application_polls();
}

bool IwarpTransport::Urgent() const {
  const auto& queue = queue_pair_.initiator();
  return batch_at_ < batch_.size() || partial_ != kNone || queue.next != queue.head ||
         responses_head_ - responses_tail_ != empty_responses_ || NeedsConfirmation() || goodbye_wanted_;
}

void IwarpTransport::BeginBatch() {
  batch_.clear();
  batch_at_ = batch_bytes_ = stage_used_ = 0;
  batch_end_ = 0;
  orphans_.clear();
}

// Between ndbroker peers an empty Write to STag 0 carries in its offset the number of received Sends and
// Writes.
void IwarpTransport::FrameReceived() {
  BeginBatch();
  wire::Segment segment;
  segment.opcode = wire::Opcode::kWrite;
  segment.offset = confirmed_in_ = messages_in_;
  Frame(segment, nullptr, nullptr, 0);
}

bool IwarpTransport::Fill() {
  BeginBatch();
  bool more = true;
  while (more && queue_pair_.live() && !broken_ && batch_bytes_ < kBatchBytes && batch_.size() < kMaxPieces &&
         kStageSize - stage_used_ > 2 * kLargestFrame) {
    // Alternates, so that requests and responses do not starve each other.
    more = responses_tail_ != responses_head_ && FrameResponse();
    if (!queue_pair_.live()) return false;
    more |= FrameRequest();
    if (!queue_pair_.live()) return false;
    if (!more && NeedsConfirmation() && !goodbye_wanted_) more = FrameReadRequest(nullptr);
  }
  return !batch_.empty();
}

// True when everything of the batch is in the socket.
bool IwarpTransport::Flush() {
  blocked_ = false;
  while (batch_at_ < batch_.size()) {
    std::ptrdiff_t sent = os::SendPieces(socket_.get(), std::span(batch_).subspan(batch_at_));
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0) {
      blocked_ = errno == EAGAIN || errno == EWOULDBLOCK;
      if (blocked_) {
        QpCounters::Add(queue_pair_.counters().stalls, 1);
      } else {
        // The remaining data tells whether the peer sent a Terminate.
        reset_ = true;
      }
      return false;
    }
    bytes_sent_ += static_cast<std::uint64_t>(sent);
    while (sent > 0) {
      os::Piece& piece = batch_[batch_at_];
      const std::size_t part = std::min(piece.size, static_cast<std::size_t>(sent));
      piece.data += part;
      piece.size -= part;
      sent -= static_cast<std::ptrdiff_t>(part);
      if (piece.size == 0) ++batch_at_;
    }
  }
  return true;
}

bool IwarpTransport::Pump() {
  bool moved = false;
  int batches = 0;
  for (; batches < kBatchesPerPump && queue_pair_.live(); ++batches) {
    if (batch_at_ == batch_.size() && (goodbye_sent_ || reset_ || !Fill())) break;
    const std::size_t before = batch_at_;
    const bool whole = Flush();
    moved |= whole || batch_at_ != before;
    if (!whole) return moved;
    if (!confirm_ && batch_end_ != 0) queue_pair_.ConfirmBefore(std::exchange(batch_end_, 0));
  }
  if (!queue_pair_.live()) return moved;
  if (batches == kBatchesPerPump) {
    runnable_ = true;  // More requests or responses may wait without an event.
  } else if (goodbye_wanted_) {
    TryGoodbye();
  }
  return moved;
}

}  // namespace nd::provider::soft
