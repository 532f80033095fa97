// SPDX-License-Identifier: Apache-2.0
#include "provider/soft/qp/iwarp/frame_batch.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "provider/soft/wire/crc32c.h"
#include "provider/soft/wire/mpa.h"

namespace nd::provider::soft {
namespace {

constexpr std::size_t kPiecesPerFrame = kMaxSge + 2;

}  // namespace

FrameBatch::FrameBatch(SoftQueuePair& queue_pair, int socket, bool crc)
    : queue_pair_(queue_pair), socket_(socket), crc_(crc), stage_(new std::byte[kStageSize]) {
  pieces_.reserve(kMaxPieces + 2 * kPiecesPerFrame);
}

std::byte* FrameBatch::Stage(std::size_t size) {
  std::byte* at = stage_.get() + stage_used_;
  stage_used_ += size;
  bytes_ += size;
  stream_framed_ += size;
  if (!pieces_.empty() && pieces_.back().data + pieces_.back().size == at) {
    pieces_.back().size += size;
  } else {
    pieces_.push_back({at, size});
  }
  return at;
}

void FrameBatch::Reference(const std::byte* data, std::size_t size) {
  pieces_.push_back({data, size});
  bytes_ += size;
  stream_framed_ += size;
}

void FrameBatch::Frame(const wire::Segment& segment, SgeCursor* cursor, const std::byte* from,
                       std::uint32_t size) {
  QpCounters::Add(queue_pair_.counters().wire_frames, 1);
  const std::size_t header = wire::kFpduHeaderSize + wire::HeaderSize(segment.opcode);
  const std::size_t ulpdu = header - wire::kFpduHeaderSize + size;
  const bool copies = cursor == nullptr || size < kCopyBelow;
  std::byte* const frame = Stage(copies ? wire::FpduSize(ulpdu) : header);
  wire::EncodeSegmentHeader(segment, frame + wire::kFpduHeaderSize);
  if (!copies) return Refer(frame, header, *cursor, size);
  std::byte* const payload = frame + header;
  if (from != nullptr) {
    std::memcpy(payload, from, size);
  } else {
    for (std::uint32_t done = 0; done < size;) {
      const auto piece = cursor->Next(size - done);
      std::memcpy(payload + done, piece.data(), piece.size());
      done += static_cast<std::uint32_t>(piece.size());
    }
  }
  // Of the copy: memory that a peer reads may change meanwhile.
  wire::SealFpdu({frame, wire::FpduSize(ulpdu)}, ulpdu, crc_);
}

void FrameBatch::Refer(std::byte* frame, std::size_t header, SgeCursor& cursor, std::uint32_t size) {
  const std::size_t ulpdu = header - wire::kFpduHeaderSize + size;
  wire::StoreBig<std::uint16_t>(frame, static_cast<std::uint16_t>(ulpdu));
  std::uint32_t crc = crc_ ? wire::Crc32c({frame, header}) : 0;
  for (std::uint32_t done = 0; done < size;) {
    const wire::ByteSpan piece(cursor.Next(size - done));
    Reference(piece.data(), piece.size());
    if (crc_) crc = wire::ExtendCrc32c(crc, piece);
    done += static_cast<std::uint32_t>(piece.size());
  }
  const wire::FpduTrailer trailer = wire::MakeFpduTrailer(ulpdu, crc, crc_);
  std::memcpy(Stage(trailer.size), trailer.bytes, trailer.size);
}

bool FrameBatch::Flush() {
  blocked_ = false;
  if (queue_pair_.MemoryGone()) {
    failed_ = true;
    return false;
  }
  while (at_ < pieces_.size()) {
    std::ptrdiff_t sent = os::SendPieces(socket_, std::span(pieces_).subspan(at_));
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0) {
      blocked_ = errno == EAGAIN || errno == EWOULDBLOCK;
      if (blocked_) {
        QpCounters::Add(queue_pair_.counters().stalls, 1);
      } else {
        failed_ = true;
      }
      return false;
    }
    stream_sent_ += static_cast<std::uint64_t>(sent);
    while (sent > 0) {
      os::Piece& piece = pieces_[at_];
      const std::size_t part = std::min(piece.size, static_cast<std::size_t>(sent));
      piece.data += part;
      piece.size -= part;
      sent -= static_cast<std::ptrdiff_t>(part);
      if (piece.size == 0) ++at_;
    }
  }
  return true;
}

void FrameBatch::CopyRest() {
  if (sent()) return;
  std::vector<std::byte> rest;
  for (std::size_t i = at_; i < pieces_.size(); ++i) {
    rest.insert(rest.end(), pieces_[i].data, pieces_[i].data + pieces_[i].size);
  }
  copied_rest_ = std::move(rest);
  pieces_.assign(1, {copied_rest_.data(), copied_rest_.size()});
  at_ = 0;
}

}  // namespace nd::provider::soft
