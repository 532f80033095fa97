// SPDX-License-Identifier: Apache-2.0
// What the sender and the receiver of one iWARP connection know together. Neither knows the other.
//
// Thread rule: under the lock of the queue pair.
#pragma once

#include <cstdint>

#include "base/unique_fd.h"
#include "provider/hand_off.h"
#include "provider/soft/qp/iwarp/frame_batch.h"
#include "provider/soft/qp/queue_pair.h"
#include "provider/soft/qp/transfer/fixed_ring.h"
#include "provider/soft/qp/transfer/outbound_reads.h"
#include "provider/soft/wire/rdmap.h"

namespace nd::provider::soft {

// A Read, or a confirmation: a Read of no bytes that no application posted.
struct IwarpRead : OutboundRead {
  bool confirmation = false;
  bool atomic = false;  // An Atomic Response answers it; `sink_stag` is the request's id.
  std::uint32_t sink_stag = 0;
  std::uint64_t confirms = 0;  // Its response confirms all requests before this position.
  std::uint64_t wire_end = 0;  // The place in the outgoing stream at which its request ends.
};

struct IwarpResponse {
  wire::ReadRequest request;
  std::uint32_t done = 0;
  bool atomic = false;  // `operation`, and of `request` only the size.
  wire::AtomicRequest operation;
};

// The messages of a request that both ends count: Sends, Writes and Immediate Data, except an empty Write to
// STag 0, which reports the count on the wire. A Write with immediate of no bytes is Immediate Data alone.
inline std::uint32_t Messages(const InitiatorRequest& request) {
  if (IsSend(request.op)) return 1;
  if (request.op == Op::kWriteImmediate) return request.list.length != 0 ? 2 : 1;
  return request.op == Op::kWrite && (request.list.length != 0 || request.token != 0) ? 1 : 0;
}

struct IwarpState {
  IwarpState(SoftQueuePair& owner, const HandOffRecord& record, UniqueFd connected)
      : queue_pair(owner),
        socket(std::move(connected)),
        crc((record.flags & kHandOffCrc) != 0),
        extensions((record.flags & kHandOffExtensions) != 0),
        own_peer((record.flags & kHandOffConfirm) != 0),
        peer_confirms(own_peer && record.read_inbound != 0),
        confirm(own_peer && record.read_outbound != 0),
        batch(owner, socket.get(), crc),
        reads(owner, record.read_outbound),
        responses(record.read_inbound) {}

  SoftQueuePair& queue_pair;
  UniqueFd socket;
  const bool crc;
  const bool extensions;     // The peer may send the opcodes of wire::IsExtension().
  const bool own_peer;       // Both ends are ndbroker.
  const bool peer_confirms;  // Sends of the peer complete only when this side received them.
  const bool confirm;        // Requests of this side complete only when the peer received them.

  // The sender fills and sends it. The receiver reads how far the stream was sent, and copies the rest before
  // a request is confirmed whose memory may be in it.
  FrameBatch batch;

  // The sender starts Reads and confirmations in the order of their message numbers; the receiver finishes
  // the oldest. Never more than the peer's read limit.
  OutboundReads<IwarpRead> reads;
  // True while `reads` contains a confirmation that no application posted: at most one at a time.
  bool confirmation_in_flight = false;
  // The receiver adds the Reads of the peer that it has checked; the sender answers the oldest. Never more
  // than this side's read limit.
  FixedRing<IwarpResponse> responses;
  // How many of `responses` have no bytes: confirmations of the peer, whose answers may wait for company.
  std::uint32_t empty_responses = 0;

  // Of this side's Sends and Writes that count: those that are completely framed. The sender adds; the
  // receiver refuses a peer that reports more.
  std::uint64_t messages_out = 0;
  // In the initiator queue, behind the last of them; 0 after a flush. Written by the sender.
  std::uint64_t confirm_end = 0;
  // Of the peer's Sends and Writes that count: those that arrived completely. Written by the receiver.
  std::uint64_t messages_in = 0;
  // Those of them that the peer knows to have arrived, by a Read Request behind them or by the sender's
  // report. Never more than messages_in.
  std::uint64_t confirmed_in = 0;

  // The application, or the end of the peer's stream, asked for the goodbye: the sender starts no further
  // request. Never becomes false.
  bool goodbye_wanted = false;
  // The sender has ended the stream: the receiver drops Sends that have no receive. Implies goodbye_wanted.
  bool goodbye_sent = false;
  // The receiver's last look emptied the socket, so that the sender's goodbye reports everything that
  // arrived.
  bool drained = false;
  // The bytes that the receiver has read since goodbye_wanted; a peer that never stops sending cannot delay
  // the goodbye for ever.
  std::uint64_t drained_bytes = 0;
  // The receiver has read the end of the peer's stream, behind a complete message. Never becomes false.
  bool stream_ended = false;

  // The next round has work without an event. Either side sets it; a round and Arm() begin with false.
  bool runnable = false;
  // The side that ended the connection and the reason, if known. Written before the loss is reported.
  Status cause;
};

}  // namespace nd::provider::soft
