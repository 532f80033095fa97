// SPDX-License-Identifier: Apache-2.0
// What a test and the shim in the process under test say to each other, in a file that both map. All zeros
// is valid and means: nothing is to happen.
#pragma once

#include <atomic>
#include <cstdint>

namespace nd::crash {

// Which system calls a hold point is about.
enum class Point : std::uint32_t {
  kAnyCall = 0,      // Every call that the shim knows.
  kSendDescriptors,  // sendmsg with SCM_RIGHTS.
  kAck,              // The client's acknowledgement of a hand-over.
  kMpaRequest,       // The start-up frame of the active side.
  kMpaReply,         // That of the passive side.
  kRtr,              // The ready-to-receive frame.
  kGoodbye,          // The end of a queue pair's stream: shutdown() of it, or the last words in the ring.
};

// What happens there.
enum class Act : std::uint32_t { kStop = 0, kKill };

struct ShimControl {
  // 1: armed. 2: it happens; whoever disarms then waits for `reached`, so that nothing happens afterwards.
  std::atomic<std::uint32_t> armed{0};
  Point point = Point::kAnyCall;
  Act act = Act::kStop;
  std::int32_t harness = -1;               // A descriptor that belongs to the test, not to the program.
  std::uint32_t after = 0;                 // 0: before the call, 1: when it has returned.
  std::atomic<std::int32_t> countdown{0};  // Happens when it reaches 0.
  std::atomic<std::uint32_t> counted{0};   // Calls since it was armed.
  std::atomic<std::uint32_t> reached{0};
  char call[32] = {};  // Its name, once reached.
};

inline constexpr char kControlVariable[] = "NDBROKER_CRASH_CONTROL";

}  // namespace nd::crash
