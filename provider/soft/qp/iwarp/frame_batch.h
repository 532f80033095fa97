// SPDX-License-Identifier: Apache-2.0
// Frames on their way into the socket: one batch of pieces at a time, sent with as few system calls as
// possible. The next batch is begun when this one is entirely in the socket.
//
// Large payloads are referred to in place. They belong to requests that are not confirmed, so the memory is
// the queue pair's until CopyRest().
//
// Thread rule: under the lock of the queue pair.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "base/os/socket.h"
#include "provider/soft/qp/queue_pair.h"
#include "provider/soft/qp/work_queue.h"
#include "provider/soft/wire/rdmap.h"

namespace nd::provider::soft {

class FrameBatch {
 public:
  // Payloads below this size are copied beside their header.
  static constexpr std::size_t kCopyBelow = 4096;

  FrameBatch(SoftQueuePair& queue_pair, int socket, bool crc);

  // Everything is in the socket.
  bool sent() const { return at_ == pieces_.size(); }
  bool empty() const { return pieces_.empty(); }
  // One more request and one more response can be framed.
  bool HasRoom() const {
    return bytes_ < kBatchBytes && pieces_.size() < kMaxPieces &&
           kStageSize - stage_used_ > 2 * kLargestFrame;
  }
  // Of all its frames.
  std::size_t bytes() const { return bytes_; }
  // The number of pieces that are entirely in the socket.
  std::size_t pieces_sent() const { return at_; }
  // Bytes of the stream, since its beginning.
  std::uint64_t stream_framed() const { return stream_framed_; }
  std::uint64_t stream_sent() const { return stream_sent_; }
  // The socket was full at the last Flush().
  bool blocked() const { return blocked_; }
  // The socket failed. Data that arrived before it may tell the reason.
  bool failed() const { return failed_; }

  // The caller checks sent().
  void Begin() {
    pieces_.clear();
    at_ = bytes_ = stage_used_ = 0;
    copied_rest_.clear();
  }
  // Frames `size` bytes from `cursor`. Their memory must stay as it is until sent() or CopyRest().
  void Add(const wire::Segment& segment, SgeCursor& cursor, std::uint32_t size) {
    Frame(segment, &cursor, nullptr, size);
  }
  // Frames a copy of `size` bytes at `from`.
  void AddCopy(const wire::Segment& segment, const std::byte* from, std::uint32_t size) {
    Frame(segment, nullptr, from, size);
  }
  // Returns sent().
  bool Flush();
  // The application gets its memory back. The rest of a partly sent batch must still be sent.
  void CopyRest();
  // Nothing of this object is used afterwards.
  std::unique_ptr<std::byte[]> TakeStage() { return std::move(stage_); }

 private:
  static constexpr std::size_t kStageSize = 256 * 1024;
  static constexpr std::size_t kBatchBytes = 256 * 1024;
  static constexpr std::size_t kMaxPieces = 256;  // Kernels take 1024.
  static constexpr std::size_t kLargestFrame = 33 * 1024;

  void Frame(const wire::Segment& segment, SgeCursor* cursor, const std::byte* from, std::uint32_t size);
  // The rest of a frame whose payload stays where it is.
  void Refer(std::byte* frame, std::size_t header, SgeCursor& cursor, std::uint32_t size);
  std::byte* Stage(std::size_t size);
  void Reference(const std::byte* data, std::size_t size);

  SoftQueuePair& queue_pair_;
  const int socket_;
  const bool crc_;
  bool blocked_ = false, failed_ = false;
  std::unique_ptr<std::byte[]> stage_;
  std::size_t stage_used_ = 0;
  std::vector<os::Piece> pieces_;
  std::size_t at_ = 0, bytes_ = 0;
  std::uint64_t stream_framed_ = 0, stream_sent_ = 0;
  std::vector<std::byte> copied_rest_;
};

}  // namespace nd::provider::soft
