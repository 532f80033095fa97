// SPDX-License-Identifier: Apache-2.0
// Shared by a test and the shim in the process under test, in a file that both map. All zeros is valid and
// means that nothing is armed.
#pragma once

#include <atomic>
#include <cstdint>

namespace nd::crash {

// The system calls of a hold point.
enum class Point : std::uint32_t {
  kAnyCall = 0,      // Every call that the shim knows.
  kSendDescriptors,  // sendmsg with SCM_RIGHTS.
  kAck,              // The client's acknowledgement of a hand-over.
  kMpaRequest,       // The start-up frame of the active side.
  kMpaReply,         // That of the passive side.
  kRtr,              // The ready-to-receive frame.
  kGoodbye,          // The end of the stream of a queue pair: shutdown(), or the end record in the ring.
  kAllocation,       // operator new.
};

// The action at the hold point.
enum class Act : std::uint32_t {
  kStop = 0,
  kKill,
  kFail,         // The first call at `place` fails.
  kFailForEver,  // That call and all later ones of its name fail until the hold point is disarmed.
};

struct ShimControl {
  // 1: armed. 2: the action runs; a disarming test then waits for `reached`, so that no action follows.
  std::atomic<std::uint32_t> armed{0};
  Point point = Point::kAnyCall;
  Act act = Act::kStop;
  std::int32_t harness = -1;               // A descriptor that belongs to the test, not to the program.
  std::uint32_t after = 0;                 // 0: before the call, 1: when it has returned.
  std::atomic<std::int32_t> countdown{0};  // The action runs when it reaches 0.
  std::atomic<std::uint32_t> counted{0};   // Calls since it was armed.
  std::atomic<std::uint32_t> reached{0};
  char call[32] = {};  // Its name, once reached.
  // Seconds that the process sees the wall clock ahead of the host's; also while nothing is armed.
  std::atomic<std::int64_t> wall_offset{0};
  // Only with kFail and kFailForEver. A place is a file of the program and an offset in it, because addresses
  // change when a process starts again. Calls at a place are not numbered over the whole program: the order
  // of calls varies from life to life.
  std::uint64_t place = 0;           // 0: no call fails.
  std::uint64_t places[16384] = {};  // That of each counted call, as far as there is room.
};

inline constexpr char kControlVariable[] = "NDBROKER_CRASH_CONTROL";

}  // namespace nd::crash
