// SPDX-License-Identifier: Apache-2.0
// Maps memory of one process into the other, so that a Write is one memcpy without work by the target.
#include <algorithm>
#include <cstring>

#include "base/fd_lane.h"
#include "provider/soft/qp/shm_transport.h"

namespace nd::provider::soft {
namespace {

// The limit for one peer; further buffers are accessed through the ring.
constexpr std::size_t kMaxSharedBuffers = 1024;
constexpr int kDatagramsPerLook = 64;

}  // namespace

void ShmTransport::ShareTable() {
  const ShareMessage message{.kind = ShareMessage::kRegionTable};
  const int fd = queue_pair_.core().regions->fd();
  // If it cannot be sent, the peer uses the ring.
  if (SendWithFds(socket_.get(), std::as_bytes(std::span(&message, 1)), std::span(&fd, 1)).ok()) {
    PublishControl(RecordKind::kDescriptors);
    WakePeer();
  }
}

bool ShmTransport::ShareBuffer(std::uint32_t id) {
  if (std::find(shared_buffers_.begin(), shared_buffers_.end(), id) != shared_buffers_.end()) return true;
  if (shared_buffers_.size() >= kMaxSharedBuffers) return false;
  const std::shared_ptr<SoftBuffer> buffer = queue_pair_.core().BufferById(id);
  if (!buffer) return false;
  const ShareMessage message{.kind = ShareMessage::kBuffer, .id = id};
  const int fd = buffer->fd();
  if (!SendWithFds(socket_.get(), std::as_bytes(std::span(&message, 1)), std::span(&fd, 1)).ok())
    return false;
  shared_buffers_.push_back(id);
  PublishControl(RecordKind::kDescriptors);
  return true;
}

void ShmTransport::MaybeShare(std::uint32_t stag) {
  if (!share_) return;
  const auto region = queue_pair_.core().regions->Lookup(stag);
  if (region && region->buffer != 0) ShareBuffer(region->buffer);
}

void ShmTransport::ReadSocket() {
  if (hung_up_) return;
  for (int i = 0; i < kDatagramsPerLook; ++i) {
    ShareMessage message;
    auto got = ReceiveWithFds(socket_.get(), std::as_writable_bytes(std::span(&message, 1)), false);
    if (!got.ok()) {
      // Any other status: the peer is gone or breaks the rules.
      hung_up_ = got.code() != StatusCode::kDeviceBusy;
      return;
    }
    if (got->size == 1) armed_ = false;  // A doorbell: the peer cleared the flag before it rang.
    if (got->size != sizeof message || message.magic != ShareMessage::kMagic || got->fds.size() != 1)
      continue;
    Adopt(message, std::move(got->fds[0]));
  }
}

void ShmTransport::Adopt(const ShareMessage& message, UniqueFd fd) {
  if (!share_) return;
  if (message.kind == ShareMessage::kRegionTable) {
    if (peer_table_ || !CheckSealedMemfd(fd.get(), kRegionTableSize).ok()) return;
    auto mapping = Mapping::Map(fd.get(), kRegionTableSize, false);
    if (!mapping.ok()) return;
    peer_table_ = std::move(mapping).value();
    peer_table_.KeepFromChildren();
    return;
  }
  if (message.kind != ShareMessage::kBuffer || peer_buffers_.size() >= kMaxSharedBuffers) return;
  if (PeerMapping(message.id) != nullptr) return;
  const auto size = CheckSealedMemfd(fd.get(), 1);
  if (!size.ok()) return;
  auto mapping = Mapping::Map(fd.get(), *size, true);
  if (!mapping.ok()) return;
  mapping->KeepFromChildren();
  peer_buffers_.push_back({message.id, std::move(mapping).value()});
}

const Mapping* ShmTransport::PeerMapping(std::uint32_t id) {
  for (std::size_t i = 0; i < peer_buffers_.size(); ++i) {
    if (peer_buffers_[i].id != id) continue;
    if (i != 0)
      std::swap(peer_buffers_[i], peer_buffers_[0]);  // The next access is probably to the same buffer.
    return &peer_buffers_[0].mapping;
  }
  return nullptr;
}

// Returns true when the request, or a part of it, was copied. A request that fails a check here goes through
// the ring, where the answer of the target decides. *waits: earlier Writes are still in the ring.
bool ShmTransport::Direct(InitiatorRequest& request, std::size_t* budget, bool* waits) {
  const bool starts = partial_ == kNone;
  const bool write = request.op == Op::kWrite;
  const auto* table = reinterpret_cast<const RegionEntry*>(peer_table_.data());
  const std::uint32_t done = starts ? 0 : partial_done_;
  const std::uint32_t left = request.list.length - done;
  const std::uint64_t address = request.remote_address + done;
  if (starts && left == 0) return false;

  mine().hazard.store(request.token, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_seq_cst);
  const auto region = ReadRegion(table, request.token);
  const std::uint32_t access = write ? kAllowRemoteWrite : kAllowRemoteRead;
  std::byte* remote = nullptr;
  if (region && (region->access & access) == access && region->Contains(address, left) &&
      region->buffer != 0 &&
      (region->queue_pair == 0 || region->queue_pair == theirs().number.load(std::memory_order_relaxed))) {
    const Mapping* mapping = PeerMapping(region->buffer);
    const std::uint64_t inside = address - region->base;
    if (mapping != nullptr && region->buffer_offset <= mapping->size() &&
        inside <= mapping->size() - region->buffer_offset &&
        left <= mapping->size() - region->buffer_offset - inside) {
      remote = mapping->data() + region->buffer_offset + inside;
    }
  }
  if (remote == nullptr || (starts && write_in_ring_)) {
    mine().hazard.store(0, std::memory_order_release);
    *waits = remote != nullptr;
    if (!starts) {
      // The target ended the registration meanwhile; its answer in the ring decides.
      partial_path_ = Path::kRing;
      if (write) return WritePieces(request, budget);
      queue_pair_.CompleteInitiator(request, StatusCode::kAccessViolation);
      return true;
    }
    return false;
  }
  if (starts) {
    partial_ = queue_pair_.initiator().next;
    partial_from_ = SgeCursor(request.list);
    partial_done_ = 0;
    partial_path_ = Path::kDirect;
    queue_pair_.Started(request);
  }
  const std::uint32_t access_here = write ? 0u : kAllowLocalWrite | kRdmaReadSink;
  std::size_t moved = 0;
  bool good = true;
  while (*budget != 0 && partial_done_ < request.list.length && good) {
    const Sge* sge = nullptr;
    const auto piece =
        partial_from_.Next(std::min<std::size_t>(*budget, request.list.length - partial_done_), &sge);
    good = request.is_inline || queue_pair_.CheckLocal(*sge, access_here);
    if (!good) break;
    if (write) {
      std::memcpy(remote + moved, piece.data(), piece.size());
    } else {
      std::memcpy(piece.data(), remote + moved, piece.size());
    }
    moved += piece.size();
    partial_done_ += static_cast<std::uint32_t>(piece.size());
    *budget -= piece.size();
  }
  mine().hazard.store(0, std::memory_order_release);
  if (good && partial_done_ < request.list.length) return true;
  partial_ = kNone;
  if (!write && good) {
    QpCounters& counters = queue_pair_.counters();
    QpCounters::Add(counters.rx_bytes, request.list.length);
    if (counters.reads_in_flight_max.load(std::memory_order_relaxed) == 0) {
      counters.reads_in_flight_max.store(1, std::memory_order_relaxed);
    }
  }
  queue_pair_.CompleteInitiator(request, good ? StatusCode::kSuccess : StatusCode::kAccessViolation);
  return true;
}

}  // namespace nd::provider::soft
