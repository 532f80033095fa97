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

// The number of a user, or one of these for the work of nobody in particular.
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
  // One turn never costs more. A longer one was a pause of this host, which no account has caused.
  static constexpr Duration kMostCharged = std::chrono::milliseconds(100);
  // Accounts without work that are remembered.
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
  // The turn of this account took so long.
  void Charge(Account account, Duration took) {
    for (Line& line : lines_) {
      if (line.account == account) line.used += std::clamp(took, Duration::zero(), kMostCharged);
    }
  }

 private:
  struct Line {
    Account account{};
    Duration used{};           // Comparable between accounts; not the time since the start.
    std::uint64_t served = 0;  // The number of its last turn: of two that have used the same, the older.
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
    // A new account has no credit, or one that returns under many names would always go first.
    return lines_.emplace_back(Line{account, now_, turns_, {}});
  }

  std::vector<Line> lines_;  // Searched from the front: few accounts have work at the same time.
  std::size_t waiting_ = 0;
  std::uint64_t turns_ = 0;
  Duration now_{};  // What the account had used that had the last turn.
};

}  // namespace nd
