// SPDX-License-Identifier: Apache-2.0
// Counts connections. It has no sockets of its own, so that every case can be tested.
#include "daemon/service/gate.h"

#include <string>

#include "daemon/ops/logging.h"

namespace nd::service {

std::uint32_t Gate::total(std::uint32_t uid) const {
  const auto it = users_.find(uid);
  return it == users_.end() ? 0 : it->second.total;
}

bool Gate::HasPlace(std::uint32_t uid) const {
  const auto it = users_.find(uid);
  return unproven_ < limits_.unproven &&
         (it == users_.end() || it->second.unproven < limits_.unproven_per_uid);
}

void Gate::Offer(UniqueFd fd, const Peer& peer) {
  User& user = users_[peer.uid];
  const bool place = waiting_.empty() && HasPlace(peer.uid);
  const bool full = user.total >= limits_.per_uid;
  if (full || (!place && (waiting_.size() >= limits_.waiting || user.waiting >= limits_.waiting / 2))) {
    door_.Refuse(full ? ops::Refusal::kUserLimit : ops::Refusal::kCrowded);
    ops::LogWarning("connection refused", std::string(name_) + ": uid " + std::to_string(peer.uid) +
                                              " (pid " + std::to_string(peer.pid) + ") has " +
                                              std::to_string(user.total) + " connections open" +
                                              (full ? "" : ", and too many wait to say Hello") +
                                              "; its newest was closed");
    if (user.total == 0) users_.erase(peer.uid);
    return;
  }
  ++user.total;
  if (place) return Admit(std::move(fd), peer);
  ++user.waiting;
  waiting_.push_back({std::move(fd), peer});
  AdmitWaiting();  // Every waiting connection may belong to a user who is at the limit.
}

void Gate::Admit(UniqueFd fd, const Peer& peer) {
  ++unproven_;
  ++users_[peer.uid].unproven;
  admitted_(std::move(fd), peer);
}

void Gate::AdmitWaiting() {
  if (admitting_) return;  // Admitting a connection can end it at once, which calls this function again.
  admitting_ = true;
  int admitted = 0;
  for (auto it = waiting_.begin(); it != waiting_.end() && unproven_ < limits_.unproven;) {
    if (!HasPlace(it->peer.uid)) {
      ++it;
      continue;
    }
    if (admitted++ == kAtOnce) {
      rest_();
      break;
    }
    Waiting next = std::move(*it);
    waiting_.erase(it);
    --users_[next.peer.uid].waiting;
    Admit(std::move(next.fd), next.peer);
    it = waiting_.begin();
  }
  admitting_ = false;
}

void Gate::Proven(std::uint32_t uid) {
  --unproven_;
  --users_[uid].unproven;
  AdmitWaiting();
}

void Gate::Gone(std::uint32_t uid, bool was_proven) {
  User& user = users_[uid];
  --user.total;
  if (!was_proven) {
    --unproven_;
    --user.unproven;
  }
  if (user.total == 0) users_.erase(uid);
  AdmitWaiting();
}

}  // namespace nd::service
