// SPDX-License-Identifier: Apache-2.0
// How many connections may be open, in all and by user, before and after they have proven themselves.
//
// One gate for each socket. A connection that finds no place among the unproven ones waits its turn, so that
// a burst of honest programs is served late rather than refused; one user can neither fill all places nor all
// of the waiting room. Loop thread.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>

#include "base/unique_fd.h"
#include "daemon/ops/door.h"
#include "daemon/service/peer.h"

namespace nd::service {

class Gate {
 public:
  struct Limits {
    std::uint32_t unproven = 64;  // In all.
    std::uint32_t unproven_per_uid = 48;
    std::uint32_t per_uid = 2048;  // Proven and unproven and waiting.
    std::uint32_t waiting = 1024;  // In all; half of it for one user.
  };
  using Admitted = std::function<void(UniqueFd, const Peer&)>;

  // `name` for the log; `door` counts who was turned away and outlives this.
  Gate(const char* name, ops::Door& door, Limits limits, Admitted admitted)
      : name_(name), door_(door), limits_(limits), admitted_(std::move(admitted)) {}

  // Admits now, later, or closes.
  void Offer(UniqueFd fd, const Peer& peer);
  // One of the admitted: it said who it is; it is gone.
  void Proven(std::uint32_t uid);
  void Gone(std::uint32_t uid, bool was_proven);

  std::uint32_t unproven() const { return unproven_; }
  std::size_t waiting() const { return waiting_.size(); }
  std::uint32_t total(std::uint32_t uid) const;

 private:
  struct User {
    std::uint32_t unproven = 0, total = 0, waiting = 0;
  };
  struct Waiting {
    UniqueFd fd;
    Peer peer;
  };
  bool HasPlace(std::uint32_t uid) const;
  void Admit(UniqueFd fd, const Peer& peer);
  void Wake();

  const char* name_;
  ops::Door& door_;
  const Limits limits_;
  const Admitted admitted_;
  std::uint32_t unproven_ = 0;
  std::map<std::uint32_t, User> users_;
  std::deque<Waiting> waiting_;
  bool waking_ = false;
};

}  // namespace nd::service
