// SPDX-License-Identifier: Apache-2.0
// Decides whether a Write or Read of ordinary memory of the peer goes through the ring or is copied by a call
// of the system. The call costs the same whatever the peer does (measured: 1.7 us for 8 bytes, 6 us for 64
// KiB). The ring is faster for small requests while the peer takes requests out of it (0.3 us), and slower
// while the peer sleeps or looks at its memory only, because a thread of it has to wake. A stream of small
// requests is faster in the ring in every case, because the peer wakes once for all of them.
//
// Thread rule: under the lock of the queue pair.
#pragma once

#include <chrono>
#include <cstdint>

#include "base/clock.h"
#include "provider/soft/qp/segment_layout.h"

namespace nd::provider::soft {

enum class Way {
  kRing,
  kCopy,
  kWait,  // Until the requests in the ring are over; then it is asked again.
};

// Learns how fast the peer empties the ring.
class RingPace {
 public:
  // A peer that takes a request after a longer time is slow.
  static constexpr Duration kSlow = std::chrono::microseconds(10);
  // A request that follows the one before by less belongs to a stream.
  static constexpr Duration kStream = std::chrono::microseconds(1);
  // The ring is tried again after so many copies, at first and at most.
  static constexpr std::uint32_t kCopies = 1024, kMostCopies = 64 * 1024;
  // While the peer is fast, one of so many requests is timed.
  static constexpr std::uint32_t kTimed = 16;

  bool slow() const { return slow_; }
  bool InStream(Time now) const { return now - last_ < kStream; }

  // A request is about to enter the empty ring. True: it is to be timed, by Enter().
  bool Times() { return !timing_ && (slow_ || entered_++ % kTimed == 0); }
  void Enter(Time now) {
    timing_ = true;
    last_ = now;
  }
  bool timing() const { return timing_; }
  // The ring is empty again.
  void Leave(Time now) {
    timing_ = false;
    slow_ = now - last_ > kSlow;
    if (!slow_) {
      pause_ = kCopies;
    } else if (pause_ < kMostCopies && tried_) {
      pause_ *= 2;
    }
    tried_ = false;
    copies_ = 0;
  }
  // A request was copied.
  void Copied(Time now) {
    last_ = now;
    if (!slow_ || ++copies_ < pause_) return;
    slow_ = false;
    tried_ = true;
    entered_ = 0;
  }

 private:
  bool slow_ = false, timing_ = false, tried_ = false;
  std::uint32_t entered_ = 0, copies_ = 0, pause_ = kCopies;
  Time last_{};
};

struct WayFacts {
  std::uint32_t length = 0;
  bool ring_busy = false;  // It has requests of which this one must not get ahead.
  bool peer_slow = false;  // It sleeps, or took long for the last requests.
  bool in_stream = false;
};

inline Way ChooseWay(const WayFacts& facts) {
  if (facts.length > kMaxChunk) return facts.ring_busy ? Way::kWait : Way::kCopy;
  if (facts.ring_busy) return Way::kRing;
  return facts.peer_slow && !facts.in_stream ? Way::kCopy : Way::kRing;
}

}  // namespace nd::provider::soft
