// SPDX-License-Identifier: Apache-2.0
// Puts received bytes into memory that was checked.
//
// Thread rule: under the lock of the queue pair. `copy(to, skip, size)` copies `size` bytes of the payload
// from byte `skip` on; each transport has its own, because the bytes of a ring wrap and those of a frame do
// not.
#pragma once

#include <cstddef>
#include <cstdint>

#include "provider/queue_pair_rules.h"
#include "provider/soft/qp/queue_pair.h"
#include "provider/soft/qp/work_queue.h"

namespace nd::provider::soft {

// Fills the next `size` bytes of `sink`, which has them. Returns false at the first element whose memory is
// not registered or not there any more, or without one of the rights `any_of_access`.
template <typename Copy>
bool PlaceInto(SoftQueuePair& queue_pair, SgeCursor& sink, std::uint32_t size, std::uint32_t any_of_access,
               Copy&& copy) {
  for (std::uint32_t done = 0; done < size;) {
    const Sge* sge = nullptr;
    const auto piece = sink.Next(size - done, &sge);
    if (!queue_pair.CheckLocal(*sge, any_of_access)) return false;
    copy(piece.data(), done, piece.size());
    if (queue_pair.MemoryGone()) return false;
    done += static_cast<std::uint32_t>(piece.size());
  }
  return true;
}

// Places a piece of a Write of the peer. Any result but kNone: nothing was placed.
template <typename Copy>
SoftQueuePair::Refusal PlaceWrite(SoftQueuePair& queue_pair, std::uint32_t stag, std::uint64_t address,
                                  std::uint32_t size, bool last, Copy&& copy) {
  SoftQueuePair::Refusal why;
  std::byte* to = queue_pair.RemoteTarget(stag, address, size, kAllowRemoteWrite, &why);
  if (to == nullptr) return why;
  if (size != 0) copy(to, 0, size);
  if (queue_pair.MemoryGone()) return SoftQueuePair::Refusal::kInvalidStag;
  QpCounters& counters = queue_pair.counters();
  QpCounters::Add(counters.rx_bytes, size);
  if (last) QpCounters::Add(counters.rx_writes, 1);
  return SoftQueuePair::Refusal::kNone;
}

// The word of an atomic operation of the peer. Ends the connection and returns null when the peer may not
// change it.
inline std::byte* AtomicTarget(SoftQueuePair& queue_pair, std::uint32_t stag, std::uint64_t address) {
  SoftQueuePair::Refusal why;
  std::byte* const word = queue_pair.RemoteTarget(stag, address, kAtomicSize, kAllowRemoteAtomic, &why);
  if (word == nullptr || address % kAtomicSize != 0) {
    queue_pair.EndConnection(EndCode::kRemoteAccess);
    return nullptr;
  }
  return word;
}

// The source of a piece of a Read Response. Ends the connection and returns null when the peer may not read
// it any more.
inline const std::byte* ResponseSource(SoftQueuePair& queue_pair, std::uint32_t stag, std::uint64_t address,
                                       std::uint32_t size) {
  SoftQueuePair::Refusal why;
  const std::byte* from = queue_pair.RemoteTarget(stag, address, size, kAllowRemoteRead, &why);
  if (from == nullptr) queue_pair.EndConnection(EndCode::kRemoteAccess);
  return from;
}

}  // namespace nd::provider::soft
