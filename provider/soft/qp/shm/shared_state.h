// SPDX-License-Identifier: Apache-2.0
// What the sender and the receiver of one same-host connection know together. Neither knows the other.
//
// Thread rule: under the lock of the queue pair.
#pragma once

#include <cstdint>

#include "provider/hand_off.h"
#include "provider/soft/qp/queue_pair.h"
#include "provider/soft/qp/shm/peer_process.h"
#include "provider/soft/qp/shm/ring_pace.h"
#include "provider/soft/qp/shm/rings.h"
#include "provider/soft/qp/shm/shared_memory.h"
#include "provider/soft/qp/transfer/fixed_ring.h"
#include "provider/soft/qp/transfer/outbound_reads.h"

namespace nd::provider::soft {

struct ShmRead : OutboundRead {
  std::uint32_t number = 0;  // Its response names it.
};

struct ShmResponse {
  std::uint32_t number = 0, stag = 0, remaining = 0;
  std::uint64_t address = 0;
  RecordKind kind = RecordKind::kReadRequest;  // Or an atomic operation.
  Operands operands;
};

struct ShmState {
  ShmState(SoftQueuePair& owner, const HandOffRecord& record, Mapping segment, UniqueFd socket)
      : queue_pair(owner),
        rings(owner, std::move(segment), std::move(socket), (record.flags & kHandOffActive) != 0 ? 0 : 1),
        extensions((record.flags & kHandOffExtensions) != 0),
        peer_process(*rings.segment(), rings.side(),
                     MayShare(owner, record) && owner.core().tuning.process_access),
        memory(owner, rings, peer_process, MayShare(owner, record)),
        reads(owner, record.read_outbound),
        responses(record.read_inbound) {}

  static bool MayShare(SoftQueuePair& owner, const HandOffRecord& record) {
    return (record.flags & kHandOffShareMemory) != 0 && owner.core().tuning.direct_access;
  }

  SoftQueuePair& queue_pair;
  // The sender publishes into this side's ring. The receiver reads the peer's ring, and acknowledges this
  // side's ring before it acts on the peer's goodbye, because the peer had consumed it by then.
  ShmRings rings;
  const bool extensions;  // The peer may send the records that need kHandOffExtensions.
  // The sender copies to and from ordinary memory of the peer.
  PeerProcess peer_process;
  // The receiver gives the peer the buffers that the peer names, and uses the peer's buffers for Sends by
  // reference. The sender gives the peer the buffers that it refers to, and copies into the peer's buffers.
  SharedMemory memory;
  RingPace pace;

  // The sender starts Reads in the order of their numbers; the receiver finishes the oldest. Never more than
  // the peer's read limit.
  OutboundReads<ShmRead> reads;
  // The receiver adds the Reads of the peer that it has checked; the sender answers the oldest. Never more
  // than this side's read limit.
  FixedRing<ShmResponse> responses;

  // The sender starts no further request. Never becomes false.
  bool goodbye_wanted = false;
  // The next round has work without an event. Either side sets it; the sender's round begins with false.
  bool runnable = false;
};

}  // namespace nd::provider::soft
