// SPDX-License-Identifier: Apache-2.0
// Produces within one host the events of the wire handshake, in the same order.
#include "provider/soft/cm/loop_cm.h"

#include <algorithm>
#include <cerrno>
#include <span>
#include <utility>

#include "base/fd_lane.h"
#include "base/memfd.h"
#include "base/memfd_beginning.h"
#include "base/os/descriptor.h"
#include "provider/soft/segment.h"
#include "provider/soft/transports.h"

namespace nd::provider::soft {
namespace {

HandOffRecord RecordFor(bool active, bool share, bool extensions, const ReadLimits& limits,
                        std::uint32_t peer_uid, std::uint32_t peer_pid) {
  HandOffRecord record = SharedRecord(kSegmentSize);
  record.flags = (active ? kHandOffActive : 0u) | kHandOffConfirm | (share ? kHandOffShareMemory : 0u) |
                 (extensions ? kHandOffExtensions : 0u);
  record.read_inbound = limits.inbound;
  record.read_outbound = limits.outbound;
  record.peer_uid = peer_uid;
  record.peer_pid = peer_pid;
  return record;
}

}  // namespace

std::shared_ptr<LoopCm::Pair> LoopCm::Find(CmId id) const {
  const auto it = sides_.find(id);
  return it == sides_.end() ? nullptr : it->second;
}

std::uint32_t LoopCm::handshakes() const {
  const auto sides = std::ranges::count_if(
      sides_, [](const auto& entry) { return entry.second->stage != Stage::kEstablished; });
  return static_cast<std::uint32_t>(sides / 2);
}

void LoopCm::Forget(const Pair& pair) {
  const CmId active = pair.active, passive = pair.passive;
  sides_.erase(active);
  sides_.erase(passive);
}

void LoopCm::Connect(const ConnectParams& params, const std::string& adapter) {
  auto pair = std::make_shared<Pair>();
  pair->active = params.id;
  pair->passive = ids_.Next();
  pair->offer = params.offer;
  pair->active_uid = params.owner_uid;
  pair->active_pid = params.owner_pid;
  pair->extensions = params.extensions;
  sides_[pair->active] = pair;
  sides_[pair->passive] = pair;
  InboundRequest request;
  request.id = pair->passive;
  request.adapter = adapter;
  request.local = params.remote;
  request.remote = params.local;
  request.peer_offer = params.offer;
  request.private_data = params.private_data;
  sink_.OnRequest(request);
}

void LoopCm::Accept(CmId id, const AcceptParams& params) {
  const auto pair = Find(id);
  if (!pair || pair->passive != id || pair->stage != Stage::kIncoming) return;
  pair->stage = Stage::kReplied;
  pair->granted = params.limits;
  pair->passive_uid = params.owner_uid;
  pair->passive_pid = params.owner_pid;
  pair->extensions = pair->extensions && params.extensions;
  sink_.OnReply(pair->active, true, params.limits, params.private_data);
}

void LoopCm::Reject(CmId id, Detail detail, const Bytes& private_data) {
  const auto pair = Find(id);
  if (!pair || pair->stage == Stage::kEstablished) return;
  Forget(*pair);
  if (id == pair->passive) {
    const bool by_application = detail == Detail::kPeerRejected;
    sink_.OnRejected(pair->active, {StatusCode::kConnectionRefused, std::string(Name(detail)), detail},
                     by_application ? private_data : Bytes{});
  } else {
    sink_.OnLost(pair->passive,
                 {StatusCode::kConnectionAborted, "the connecting application rejected the connection",
                  Detail::kPeerRejected},
                 private_data);
  }
}

Status LoopCm::MakeSegment(Pair& pair) {
  Result<UniqueFd> segment = CreateSealedMemfd("ndbroker-pair", kSegmentSize);
  if (!segment.ok()) return segment.status();
  static_cast<void>(WriteBeginning(segment->get(), std::as_bytes(std::span(kBothAsleep))));
  UniqueFd copy = os::Duplicate(segment->get());
  if (!copy) {
    return {StatusCode::kInsufficientResources, "no descriptor is left", Detail::kTransport, errno};
  }
  UniqueFd bell_a, bell_b;
  if (Status status = MakeSeqpacketPair(&bell_a, &bell_b); !status.ok()) return status;
  const bool share = pair.active_uid == pair.passive_uid;
  const ReadLimits passive_limits = pair.granted;
  const ReadLimits active_limits{std::min(pair.offer.inbound, pair.granted.outbound),
                                 std::min(pair.offer.outbound, pair.granted.inbound)};
  pair.active_hand_off.record =
      RecordFor(true, share, pair.extensions, active_limits, pair.passive_uid, pair.passive_pid);
  pair.active_hand_off.fds.push_back(std::move(segment).value());
  pair.active_hand_off.fds.push_back(std::move(bell_a));
  pair.passive_hand_off.record =
      RecordFor(false, share, pair.extensions, passive_limits, pair.active_uid, pair.active_pid);
  pair.passive_hand_off.fds.push_back(std::move(copy));
  pair.passive_hand_off.fds.push_back(std::move(bell_b));
  return Status::Ok();
}

void LoopCm::Confirm(CmId id) {
  const auto pair = Find(id);
  if (!pair || pair->active != id || pair->stage != Stage::kReplied) return;
  if (const Status status = MakeSegment(*pair); !status.ok()) {
    Forget(*pair);
    sink_.OnLost(pair->active, status, {});
    sink_.OnLost(pair->passive, status, {});
    return;
  }
  pair->stage = Stage::kEstablished;
  sink_.OnEstablished(pair->active);
  sink_.OnEstablished(pair->passive);
}

void LoopCm::Abort(CmId id) {
  const auto pair = Find(id);
  if (!pair) return;
  if (pair->stage == Stage::kEstablished) {
    // The queue pair of the other side notices when this side closes its end of the transport.
    sides_.erase(id);
    (id == pair->active ? pair->active_hand_off : pair->passive_hand_off).fds.clear();
    return;
  }
  Forget(*pair);
  if (id == pair->active) {
    sink_.OnLost(pair->passive,
                 {StatusCode::kConnectionAborted, "the connecting side withdrew", Detail::kPeerWithdrew}, {});
  } else if (pair->stage == Stage::kReplied) {
    sink_.OnLost(
        pair->active,
        {StatusCode::kConnectionAborted, "the other side withdrew after accepting", Detail::kPeerWithdrew},
        {});
  } else {
    sink_.OnRejected(pair->active,
                     {StatusCode::kConnectionRefused, "the request was dropped", Detail::kListenerClosed},
                     {});
  }
}

Result<HandOff> LoopCm::TakeHandOff(CmId id) {
  const auto pair = Find(id);
  if (!pair || pair->stage != Stage::kEstablished) {
    return Status{StatusCode::kInvalidParameter, "there is no established connection of that id"};
  }
  sides_.erase(id);
  HandOff hand_off = std::move(id == pair->active ? pair->active_hand_off : pair->passive_hand_off);
  hand_off.transport = kSharedName;
  hand_off.close_may_block = false;  // Shared memory and a socket of this host.
  return hand_off;
}

}  // namespace nd::provider::soft
