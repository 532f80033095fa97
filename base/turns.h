// SPDX-License-Identifier: Apache-2.0
// Divides the time of one thread among accounts (users, mostly), however much work each of them has.
//
// The account that has used the least time goes next; the work of one account is done in order of arrival. An
// account without work saves no more than kCredit: it goes first when it comes back, and does not delay the
// others for longer than that. Not a thread's own: no lock, no clock.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <utility>
#include <vector>

#include "base/clock.h"

namespace nd {

// The number of a user, or one of these accounts for work that belongs to no local user.
enum class Account : std::uint64_t {
  kReclaiming = std::uint64_t{1} << 32,  // Objects of sessions that have ended.
  kPeers,   // Connections that other hosts began: together they delay the users of this host as one user
            // would.
  kCommon,  // Everything else.
};

template <typename Work>
class Turns {
 public:
  static constexpr Duration kCredit = std::chrono::milliseconds(2);
  // The most that is charged for one turn. A longer turn is a pause of the host, which no account has caused.
  static constexpr Duration kMostCharged = std::chrono::milliseconds(100);
  // The number of accounts without work that are remembered.
  static constexpr std::size_t kRemembered = 64;

  void Add(Account account, Work work) {
    LineOf(account).work.push_back(std::move(work));
    ++waiting_;
  }
  bool empty() const { return waiting_ == 0; }

  struct Turn {
    Account account{};
    Work work;
  };
  // Only when it is not empty.
  Turn Take() {
    Line* next = nullptr;
    for (Line& line : lines_) {
      if (line.work.empty()) continue;
      if (next == nullptr || std::pair(line.used, line.served) < std::pair(next->used, next->served)) {
        next = &line;
      }
    }
    now_ = std::max(now_, next->used);
    next->served = ++turns_;
    Turn turn{next->account, std::move(next->work.front())};
    next->work.pop_front();
    --waiting_;
    return turn;
  }
  // Charges `account` for a turn of this length.
  void Charge(Account account, Duration took) {
    for (Line& line : lines_) {
      if (line.account == account) line.used += std::clamp(took, Duration::zero(), kMostCharged);
    }
  }

 private:
  struct Line {
    Account account{};
    // Time used, on a scale that all accounts share; a new account does not start at 0.
    Duration used{};
    // The number of its last turn. Of two accounts that have used the same, the one served longer ago is
    // next.
    std::uint64_t served = 0;
    std::deque<Work> work;
  };

  Line& LineOf(Account account) {
    for (Line& line : lines_) {
      if (line.account != account) continue;
      if (line.work.empty()) line.used = std::max(line.used, now_ - kCredit);
      return line;
    }
    if (lines_.size() >= kRemembered) {
      std::erase_if(lines_, [](const Line& line) { return line.work.empty(); });
    }
    // A new account gets no credit: otherwise a user with many new accounts would always be first.
    return lines_.emplace_back(Line{account, now_, turns_, {}});
  }

  std::vector<Line> lines_;  // Searched linearly, because few accounts have work at the same time.
  std::size_t waiting_ = 0;
  std::uint64_t turns_ = 0;
  Duration now_{};  // The used time of the account that had the last turn.
};

}  // namespace nd
