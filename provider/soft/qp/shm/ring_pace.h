// SPDX-License-Identifier: Apache-2.0
// Decides whether a Write or Read of ordinary memory of the peer goes through the ring or is copied by a call
// of the system. Measured in GB/s and us, two processes on a core each:
//
//                     64 KiB, in a stream   4 KiB, in a stream   8 bytes, one after the other
//   peer polls        ring 17, copy 10      ring 10              ring 0.3
//   peer sleeps       ring 3.3, copy 10     ring 3.4, copy 2.1   ring 20 to 600, copy 1.8
//
// In a stream a thread of a sleeping peer wakes once for many requests.
//
// Thread rule: under the lock of the queue pair.
#pragma once

#include <chrono>
#include <cstdint>

#include "base/clock.h"

namespace nd::provider::soft {

enum class Way {
  kRing,
  kCopy,
  kWait,  // Until the requests in the ring are over; then it is asked again.
};

// Learns how soon the peer takes a request out of the ring.
class RingPace {
 public:
  // A peer that takes a longer time is slow.
  static constexpr Duration kSlow = std::chrono::microseconds(10);
  // A request that follows the end of the one before by less belongs to a stream.
  static constexpr Duration kStream = std::chrono::microseconds(1);
  // The ring is tried again after so many copies, at first and at most.
  static constexpr std::uint32_t kCopies = 256, kMostCopies = 64 * 1024;
  // While the peer is fast, one of so many requests is timed.
  static constexpr std::uint32_t kTimed = 16;

  // `armed`: the peer has asked to be woken. It may poll all the same, so the ring is tried sometimes.
  bool Slow(bool armed) const { return !tries_ && (slow_ || armed); }
  bool InStream(Time now) const { return now - last_ < kStream; }

  // A request is about to enter the empty ring. True: it is to be timed, by Enter().
  bool Times() { return !timing_ && (tries_ || slow_ || entered_++ % kTimed == 0); }
  // `position`: of its first record.
  void Enter(Time now, std::uint32_t position) {
    timing_ = true;
    began_ = now;
    position_ = position;
  }
  bool timing() const { return timing_; }
  std::uint32_t position() const { return position_; }
  // The peer has taken the record.
  void Leave(Time now) {
    timing_ = false;
    last_ = now;
    slow_ = now - began_ > kSlow;
    if (!slow_) {
      pause_ = kCopies;
    } else if (tries_ && pause_ < kMostCopies) {
      pause_ *= 2;
    }
    tries_ = false;
    copies_ = 0;
  }
  // A request was copied.
  void Copied(Time now) {
    last_ = now;
    tries_ = ++copies_ >= pause_;
  }

 private:
  bool slow_ = false, timing_ = false, tries_ = false;
  std::uint32_t entered_ = 0, copies_ = 0, pause_ = kCopies, position_ = 0;
  Time began_{}, last_{};
};

struct WayFacts {
  std::uint32_t length = 0;
  bool ring_busy = false;  // It has requests of which this one must not get ahead.
  bool peer_slow = false;  // It sleeps, or took long for the last request.
  bool in_stream = false;
};

// From this length on a copy is faster than the ring of a slow peer also in a stream.
inline constexpr std::uint32_t kCopyFrom = 8 * 1024;

inline Way ChooseWay(const WayFacts& facts) {
  if (!facts.peer_slow) return Way::kRing;
  if (facts.length >= kCopyFrom) return facts.ring_busy ? Way::kWait : Way::kCopy;
  return facts.ring_busy || facts.in_stream ? Way::kRing : Way::kCopy;
}

}  // namespace nd::provider::soft
