// SPDX-License-Identifier: Apache-2.0
// The handshake of a device in messages: request, reply, confirmation and goodbye. Each of them may be lost.
#include "tests/sim/device_cm.h"

#include <utility>

namespace nd::sim {
namespace {

using provider::CmId;

Status Withdrawn() {
  return {StatusCode::kConnectionAborted, "The other side withdrew.", Detail::kPeerWithdrew};
}
Status Silence() {
  return {StatusCode::kIoTimeout, "The other side does not answer.", Detail::kWireTimeout};
}
constexpr Duration kPatience = std::chrono::seconds(8);

}  // namespace

DeviceCm::Pair* DeviceCm::Find(CmId id, int* index) {
  const auto found = sides_.find(id);
  if (found == sides_.end()) return nullptr;
  *index = found->second.index;
  return &fabric_.pairs_.at(found->second.pair);
}

template <typename F>
void DeviceCm::Later(std::uint64_t pair, int index, F f) {
  fabric_.schedule_.After(fabric_.dice_.Micros(5, 3000), [&fabric = fabric_, pair, index, f] {
    const auto found = fabric.pairs_.find(pair);
    if (found == fabric.pairs_.end()) return;
    DeviceCm* const manager = found->second.side[index];
    if (manager != nullptr) f(*manager, found->second.id[index]);
  });
}

// Releases one end; the pair is released with its second end.
void DeviceCm::Drop(std::uint64_t pair, int index) {
  const auto found = fabric_.pairs_.find(pair);
  if (found == fabric_.pairs_.end()) return;
  Pair& p = found->second;
  if (p.side[index] != nullptr) p.side[index]->sides_.erase(p.id[index]);
  p.side[index] = nullptr;
  p.stage = Stage::kOver;
  if (p.side[1 - index] == nullptr) fabric_.pairs_.erase(found);
}

DeviceCm::~DeviceCm() {
  for (auto it = fabric_.listeners_.begin(); it != fabric_.listeners_.end();) {
    it = it->second == this ? fabric_.listeners_.erase(it) : std::next(it);
  }
  while (!sides_.empty()) {
    const Side side = sides_.begin()->second;
    Withdraw(side.pair, side.index, DisconnectReason::kPeerBrokerLost);
  }
}

void DeviceCm::Connect(const provider::ConnectParams& params) {
  const std::uint64_t key = fabric_.next_++;
  Pair& p = fabric_.pairs_[key];
  p.side[0] = this;
  p.id[0] = params.id;
  sides_[params.id] = {key, 0};
  if (fabric_.dice_.Chance(fabric_.loss)) {
    fabric_.schedule_.After(kPatience, [&fabric = fabric_, key] {
      const auto found = fabric.pairs_.find(key);
      if (found == fabric.pairs_.end() || found->second.side[0] == nullptr) return;
      DeviceCm& self = *found->second.side[0];
      const CmId id = found->second.id[0];
      self.Drop(key, 0);
      self.sink_.OnFailed(id, Silence());
    });
    return;
  }
  Later(key, 0, [key, params](DeviceCm& self, CmId id) {
    Fabric& fabric = self.fabric_;
    const auto listener = fabric.listeners_.find(params.remote);
    if (listener == fabric.listeners_.end()) {
      self.Drop(key, 0);
      self.sink_.OnRejected(id, {StatusCode::kConnectionRefused, "Nobody listens.", Detail::kNoListener}, {});
      return;
    }
    DeviceCm& peer = *listener->second;
    Pair& pair = fabric.pairs_.at(key);
    pair.side[1] = &peer;
    pair.id[1] = peer.ids_.Next();
    peer.sides_[pair.id[1]] = {key, 1};
    provider::InboundRequest request;
    request.id = pair.id[1];
    request.adapter = peer.adapter_;
    request.local = params.remote;
    request.remote = params.local;
    request.peer_offer = params.offer;
    request.private_data = params.private_data;
    peer.sink_.OnRequest(request);
  });
}

void DeviceCm::Accept(CmId id, const provider::AcceptParams& params) {
  int index = 0;
  Pair* const p = Find(id, &index);
  if (p == nullptr || index != 1 || p->stage != Stage::kRequested) return;
  p->stage = Stage::kPreparingReply;
  p->answer = params.limits;
  p->answer_data = params.private_data;
  Later(sides_.at(id).pair, 1, [](DeviceCm& self, CmId me) { self.sink_.OnPrepare(me, {1, 2, 3}); });
}

void DeviceCm::Confirm(CmId id) {
  int index = 0;
  Pair* const p = Find(id, &index);
  if (p == nullptr || index != 0 || p->stage != Stage::kReplied) return;
  p->stage = Stage::kPreparingConfirm;
  Later(sides_.at(id).pair, 0, [](DeviceCm& self, CmId me) { self.sink_.OnPrepare(me, {4, 5, 6}); });
}

void DeviceCm::Prepared(CmId id, const Status& status) {
  int index = 0;
  Pair* const p = Find(id, &index);
  if (p == nullptr) return;
  const std::uint64_t key = sides_.at(id).pair;
  const bool replying = p->stage == Stage::kPreparingReply && index == 1;
  if (!replying && !(p->stage == Stage::kPreparingConfirm && index == 0)) return;
  if (!status.ok()) {
    Withdraw(key, index, DisconnectReason::kEstablishmentFailed);
    sink_.OnLost(id, status, {});
    return;
  }
  if (replying) {
    p->stage = Stage::kReplied;
    // A peer that violates the protocol: it will read more than it was offered.
    if (fabric_.dice_.Chance(fabric_.loss * 3)) p->answer.outbound = fabric_.dice_.Chance(500) ? 300 : 200;
    Later(key, 0, [key](DeviceCm& self, CmId me) {
      const Pair& pair = self.fabric_.pairs_.at(key);
      if (pair.stage == Stage::kReplied) self.sink_.OnReply(me, true, pair.answer, pair.answer_data);
    });
    return;
  }
  p->stage = Stage::kUp;
  sink_.OnEstablished(id);
  Later(key, 1, [](DeviceCm& self, CmId me) { self.sink_.OnEstablished(me); });
}

void DeviceCm::Reject(CmId id, Detail detail, const provider::Bytes& private_data) {
  int index = 0;
  Pair* const p = Find(id, &index);
  if (p == nullptr || p->stage == Stage::kUp) return;
  const std::uint64_t key = sides_.at(id).pair;
  if (p->side[1 - index] != nullptr) {
    const bool by_application = detail == Detail::kPeerRejected;
    const provider::Bytes data = by_application ? private_data : provider::Bytes{};
    Later(key, 1 - index, [key, index, detail, data](DeviceCm& self, CmId me) {
      self.Drop(key, 1 - index);
      if (index == 1) {
        self.sink_.OnRejected(me, {StatusCode::kConnectionRefused, "Refused.", detail}, data);
      } else {
        self.sink_.OnLost(me, {StatusCode::kConnectionAborted, "Rejected.", Detail::kPeerRejected}, data);
      }
    });
  }
  Drop(key, index);
}

void DeviceCm::Withdraw(std::uint64_t key, int index, DisconnectReason reason) {
  const Pair& p = fabric_.pairs_.at(key);
  const bool up = p.stage == Stage::kUp;
  if (p.side[1 - index] != nullptr) {
    Later(key, 1 - index, [key, index, up, reason](DeviceCm& self, CmId me) {
      if (up) return self.sink_.OnPeerClosed(me, reason);
      self.Drop(key, 1 - index);
      if (index == 1) {
        self.sink_.OnRejected(me, {StatusCode::kConnectionRefused, "Gone.", Detail::kPeerWithdrew}, {});
        self.sink_.OnLost(me, Withdrawn(), {});
      } else {
        self.sink_.OnLost(me, Withdrawn(), {});
      }
    });
  }
  Drop(key, index);
}

void DeviceCm::Abort(CmId id) {
  const auto found = sides_.find(id);
  if (found != sides_.end())
    Withdraw(found->second.pair, found->second.index, DisconnectReason::kPeerProcessDied);
}

void DeviceCm::Disconnect(CmId id) {
  int index = 0;
  Pair* const p = Find(id, &index);
  if (p == nullptr) return;
  const std::uint64_t key = sides_.at(id).pair;
  const bool lost = fabric_.dice_.Chance(fabric_.loss);
  if (!lost && p->side[1 - index] != nullptr) {
    Later(key, 1 - index,
          [](DeviceCm& self, CmId me) { self.sink_.OnPeerClosed(me, DisconnectReason::kPeerDisconnected); });
  }
  const auto answer = [](DeviceCm& self, CmId me, bool timed_out) {
    self.sink_.OnDisconnected(me, timed_out ? Silence() : Status());
  };
  if (!lost) {
    Later(key, index, [answer](DeviceCm& self, CmId me) { answer(self, me, false); });
    return;
  }
  fabric_.schedule_.After(std::chrono::seconds(4), [&fabric = fabric_, key, index, answer] {
    const auto found = fabric.pairs_.find(key);
    if (found == fabric.pairs_.end() || found->second.side[index] == nullptr) return;
    answer(*found->second.side[index], found->second.id[index], true);
  });
}

}  // namespace nd::sim
