// SPDX-License-Identifier: Apache-2.0
// Writes and Reads of ordinary memory of the peer, by a call of the system: no thread of the peer takes part.
#include <algorithm>
#include <array>
#include <chrono>

#include "provider/soft/qp/shm/sender.h"

namespace nd::provider::soft {

bool ShmSender::Busy(Op op) const {
  // Answers keep the order of their requests: none overtakes an atomic operation.
  return state_.rings.request_in_ring() || (IsAnswered(op) && !state_.reads.empty());
}

Way ShmSender::WayOf(const InitiatorRequest& request) {
  const bool busy = Busy(request.op);
  // The peer has to take the immediate data in any case.
  if (request.op == Op::kWriteImmediate && request.list.length < kCopyFrom) return Way::kRing;
  RingPace& pace = state_.pace;
  WayFacts facts{.length = request.list.length, .ring_busy = busy};
  facts.peer_slow = pace.Slow(state_.rings.theirs().armed.load(std::memory_order_relaxed) != 0);
  if (facts.peer_slow && !busy) facts.in_stream = pace.InStream(std::chrono::steady_clock::now());
  const Way way = ChooseWay(facts);
  if (way == Way::kRing && !busy && pace.Times())
    pace.Enter(std::chrono::steady_clock::now(), state_.rings.head());
  return way;
}

// Moves the next bytes of a request. False: nothing was moved, and the request goes through the ring. Clears
// the hazard.
bool ShmSender::CopyByProcess(InitiatorRequest& request, std::uint64_t remote, std::size_t* budget) {
  SoftQueuePair& queue_pair = state_.queue_pair;
  const bool starts = !partial_.active();
  const bool write = IsWrite(request.op);
  const std::uint32_t done = starts ? 0 : partial_.done;
  const std::uint32_t access_here = write ? 0u : kAllowLocalWrite | kRdmaReadSink;
  SgeCursor from = starts ? SgeCursor(request.list) : partial_.from;
  std::array<os::PieceHere, PeerProcess::kMostPieces> pieces;
  std::size_t count = 0, wanted = 0;
  bool good = true;
  while (wanted < *budget && done + wanted < request.list.length) {
    const Sge* sge = nullptr;
    const auto piece =
        from.Next(std::min<std::size_t>(*budget - wanted, request.list.length - done - wanted), &sge);
    good = request.is_inline || queue_pair.CheckLocal(*sge, access_here);
    if (!good) break;
    pieces[count++] = {piece.data(), piece.size()};
    wanted += piece.size();
  }
  const std::span<const os::PieceHere> all(pieces.data(), count);
  std::size_t moved = 0;
  if (good) moved = write ? state_.peer_process.Write(all, remote) : state_.peer_process.Read(all, remote);
  state_.rings.mine().hazard.store(0, std::memory_order_release);
  state_.pace.Copied(std::chrono::steady_clock::now());
  // Memory of one of the two is gone, or cannot be reached so. The ring finds out which.
  const bool all_moved = good && moved == wanted;
  if (starts && !all_moved) return false;
  if (starts) {
    partial_.Begin(queue_pair.initiator().next, request.list);
    partial_path_ = Path::kDirect;
    queue_pair.Started(request);
  }
  if (!all_moved) return LeaveDirect(request, budget);
  partial_.from = from;
  partial_.done += static_cast<std::uint32_t>(wanted);
  *budget -= wanted;
  return FinishDirect(request, true, budget);
}

}  // namespace nd::provider::soft
