// SPDX-License-Identifier: Apache-2.0
#include "provider/soft/qp/shm/shared_memory.h"

#include <algorithm>
#include <span>

#include "base/fd_lane.h"
#include "base/lane_sender.h"
#include "base/os/socket.h"

namespace nd::provider::soft {
namespace {

// The limit for one peer; further buffers are accessed through the ring.
constexpr std::size_t kMaxSharedBuffers = 1024;
constexpr int kDatagramsPerLook = 64;

bool SendDescriptor(int socket, const ShareMessage& message, int fd) {
  return SendWithFds(socket, std::as_bytes(std::span(&message, 1)), std::span(&fd, 1)).ok();
}

}  // namespace

SharedMemory::SharedMemory(SoftQueuePair& queue_pair, ShmRings& rings, PeerProcess& peer_process,
                           bool enabled)
    : queue_pair_(queue_pair), rings_(rings), peer_process_(peer_process), enabled_(enabled) {}

// If it cannot be sent, the peer uses the ring.
void SharedMemory::SendTable() {
  table_shown_ = true;
  const ShareMessage message{.kind = ShareMessage::kRegionTable};
  const int table = queue_pair_.core().regions->fd();
  if (os::Send(rings_.socket(), &kTableFollows, 1) != 1) return;
  if (SendInMyName(rings_.socket(), std::as_bytes(std::span(&message, 1)), std::span(&table, 1)).ok() ||
      SendDescriptor(rings_.socket(), message, table)) {
    rings_.PublishControl(RecordKind::kDescriptors);
  }
}

const SharedMemory::Given* SharedMemory::Give(std::uint32_t id) {
  const auto given = std::ranges::find(shared_buffers_, id, &Given::id);
  if (given != shared_buffers_.end()) return &*given;
  if (shared_buffers_.size() >= kMaxSharedBuffers) return nullptr;
  const std::shared_ptr<SoftBuffer> buffer = queue_pair_.core().BufferById(id);
  // Memory of the program is for a process that this side knows.
  if (buffer && buffer->borrowed()) ShowTable();
  if (!buffer || (buffer->borrowed() && !peer_process_.reachable())) return nullptr;
  if (buffer->lent() && !peer_process_.ReachesThis()) return nullptr;
  if (!SendDescriptor(rings_.socket(), {.kind = ShareMessage::kBuffer, .id = id}, buffer->fd())) {
    return nullptr;
  }
  shared_buffers_.push_back({id, buffer->borrowed() && !buffer->lent() ? 0 : buffer->size()});
  rings_.PublishControl(RecordKind::kDescriptors);
  return &shared_buffers_.back();
}

bool SharedMemory::ShareForSends(std::uint32_t id, std::uint64_t end) {
  const Given* const given = Give(id);
  return given != nullptr && end <= given->size_for_sends;
}

void SharedMemory::ShareRegistration(std::uint32_t stag) {
  if (!enabled_) return;
  const auto region = queue_pair_.core().regions->Lookup(stag);
  if (!region) return;
  if (region->shared_as() != 0) ShareBuffer(region->shared_as());
}

bool SharedMemory::GiveReadyPage(int page, std::uint32_t place) {
  if (!enabled_ || !rings_.HasRoom(0) ||
      !SendDescriptor(rings_.socket(), {.kind = ShareMessage::kReadyPage, .id = place}, page)) {
    return false;
  }
  return rings_.PublishControl(RecordKind::kDescriptors);
}

void SharedMemory::ReadSocket(bool until_doorbell) {
  if (hung_up_) return;
  // A doorbell that has been rung is taken now. The rest can wait for the next look.
  if (until_doorbell && !rings_.DoorbellComes() && !os::MayHaveMessage(rings_.socket())) return;
  for (int i = 0; i < kDatagramsPerLook; ++i) {
    ShareMessage message;
    const auto bytes = std::as_writable_bytes(std::span(&message, 1));
    std::uint32_t sender = 0;
    auto got = ReceiveNext(bytes, &sender);
    if (!got.ok()) {
      // Any other status: the peer is gone or breaks the rules.
      hung_up_ = got.code() != StatusCode::kDeviceBusy;
      return;
    }
    heard_ = true;
    table_comes_ = got->size == 1 && bytes[0] == kTableFollows;
    if (table_comes_) continue;
    if (got->size == 1) {
      rings_.OnDoorbell();
      if (until_doorbell) return;
    }
    if (got->size != sizeof message || message.magic != ShareMessage::kMagic || got->fds.size() != 1)
      continue;
    Adopt(message, std::move(got->fds[0]), sender);
  }
}

// Only the sender of the table matters. An earlier version sends it first of all.
Result<FdMessage> SharedMemory::ReceiveNext(std::span<std::byte> bytes, std::uint32_t* sender) {
  if (enabled_ && table_comes_) return ReceiveWithSender(rings_.socket(), bytes, sender);
  if (enabled_ && !heard_) return ReceiveLongWithSender(rings_.socket(), bytes, sizeof(std::byte), sender);
  return ReceiveWithFds(rings_.socket(), bytes, false);
}

void SharedMemory::Adopt(const ShareMessage& message, UniqueFd fd, std::uint32_t sender) {
  if (!enabled_) return;
  if (message.kind == ShareMessage::kRegionTable) {
    if (peer_table_) return;
    peer_table_ = queue_pair_.core().peer_tables.Take(fd.get());
    peer_process_.SetNumber(sender);
    return;
  }
  if (message.kind == ShareMessage::kReadyPage)
    return rings_.AnnounceIn(queue_pair_.core().peer_pages.Take(fd.get()), message.id);
  if (message.kind != ShareMessage::kBuffer || peer_buffers_.size() >= kMaxSharedBuffers) return;
  if (PeerBuffer(message.id, false) != nullptr) return;
  const auto size = CheckSealedMemfd(fd.get(), 1);
  if (!size.ok()) return;
  auto mapping = Mapping::Map(fd.get(), *size, true);
  const bool writable = mapping.ok();
  if (!writable) mapping = Mapping::Map(fd.get(), *size, false);
  if (!mapping.ok()) return;
  mapping->KeepFromChildren();
  peer_buffers_.push_back({message.id, std::move(mapping).value(), writable});
}

bool SharedMemory::ToFront(std::uint32_t id) {
  const auto found = std::ranges::find(peer_buffers_, id, &Buffer::id);
  if (found == peer_buffers_.end()) return false;
  std::swap(*found, peer_buffers_[0]);
  return true;
}

bool SharedMemory::ShouldAskFor(std::uint32_t id) {
  if (asked_for_.size() >= kMaxSharedBuffers) return false;
  if (std::find(asked_for_.begin(), asked_for_.end(), id) != asked_for_.end()) return false;
  asked_for_.push_back(id);
  return true;
}

}  // namespace nd::provider::soft
