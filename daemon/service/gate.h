// SPDX-License-Identifier: Apache-2.0
// Limits the number of open connections, in all and by user, before and after Hello.
//
// There is one gate for each socket. A connection beyond the limit of unproven ones waits for a place, so
// that a burst of honest programs is delayed rather than refused. One user can fill neither all places nor
// the whole queue. Loop thread.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>

#include "base/unique_fd.h"
#include "daemon/service/door.h"
#include "daemon/service/peer.h"

namespace nd::service {

class Gate {
 public:
  struct Limits {
    std::uint32_t unproven = 64;  // The limit for all users together.
    std::uint32_t unproven_per_uid = 48;
    std::uint32_t per_uid = 2048;  // Proven, unproven and waiting together.
    std::uint32_t waiting = 1024;  // The limit for all users together; half of it for one user.
  };
  using Admitted = std::function<void(UniqueFd, const Peer&)>;

  // One call admits at most this many waiting connections. Each may fail at once, and leave its place to the
  // next.
  static constexpr int kAtOnce = 8;

  // `name` is for the log. `door` counts refused connections and outlives this. `rest` has AdmitWaiting()
  // called by the loop, after other work.
  Gate(const char* name, ops::Door& door, Limits limits, Admitted admitted, std::function<void()> rest)
      : name_(name), door_(door), limits_(limits), admitted_(std::move(admitted)), rest_(std::move(rest)) {}

  // Admits the connection now or later, or closes it.
  void Offer(UniqueFd fd, const Peer& peer);
  // An admitted connection has sent a valid Hello, or has closed.
  void Proven(std::uint32_t uid);
  void Gone(std::uint32_t uid, bool was_proven);
  void AdmitWaiting();

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

  const char* name_;
  ops::Door& door_;
  const Limits limits_;
  const Admitted admitted_;
  const std::function<void()> rest_;
  std::uint32_t unproven_ = 0;
  std::map<std::uint32_t, User> users_;
  std::deque<Waiting> waiting_;
  bool admitting_ = false;
};

}  // namespace nd::service
