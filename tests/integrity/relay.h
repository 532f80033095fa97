// SPDX-License-Identifier: Apache-2.0
// The wire between two brokers: forwards TCP connections and flips one bit of each according to a plan. It
// parses the start-up frames and the lengths of FPDUs itself and shares no code with the product. It has a
// thread of its own; SetPlan() and the counters may be used from any thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/unique_fd.h"

namespace nd::integrity {

// Names a bit of a connection: in the stream behind the start-up frames, or in one frame of it.
struct Flip {
  bool none = false;
  bool to_active = false;  // Direction.
  bool in_frame = false;   // `byte` counts from the start of frame number `frame` (0: the RTR frame).
  std::uint32_t frame = 0;
  std::uint64_t byte = 0;
  std::uint8_t bit = 0;
};

class Relay {
 public:
  // Listens at address:from and forwards to address:to from the address `source`. Check error().
  Relay(const std::string& address, std::uint16_t from, std::uint16_t to, const std::string& source);
  ~Relay();
  Relay(const Relay&) = delete;
  Relay& operator=(const Relay&) = delete;
  const std::string& error() const { return error_; }
  // Sets the flip of the n-th connection that completes its start-up, counted from 0 from this call on.
  void SetPlan(std::function<Flip(std::uint64_t connection)> plan);
  std::uint64_t connections() const { return connections_; }
  std::uint64_t flipped() const { return flipped_; }
  // The size of the frame of the last in_frame flip.
  std::uint64_t frame_size() const { return frame_size_; }

 private:
  // One direction.
  struct Way {
    UniqueFd* from = nullptr;
    UniqueFd* to = nullptr;
    std::vector<std::uint8_t> waiting;  // Read, not yet forwarded.
    std::vector<std::uint8_t> head;     // Start-up frame so far.
    bool started = false;               // The start-up frame was forwarded.
    std::uint64_t streamed = 0;         // Bytes behind it.
    std::uint32_t frame = 0;            // Number of the current frame.
    std::uint64_t in_frame = 0;         // Bytes of it so far.
    std::uint64_t frame_size = 0;       // 0: its length has not arrived.
    std::uint8_t length_high = 0;
    bool ended = false;
  };
  struct Pair {
    UniqueFd active, passive;
    Way ways[2];  // To the passive side, to the active side.
    Flip flip;
    bool counted = false;
    bool done = false;
  };

  void Run();
  void Take();
  // Returns false when this pair has ended.
  bool Move(Pair& pair, int way);
  void Count(Pair& pair);
  void Pass(Pair& pair, int way, std::uint8_t* bytes, std::size_t size);

  std::string error_, source_, address_;
  std::uint16_t to_;
  UniqueFd listener_, stop_[2];
  std::mutex mutex_;
  std::function<Flip(std::uint64_t)> plan_;
  std::atomic<std::uint64_t> connections_{0}, flipped_{0}, frame_size_{0};
  std::vector<std::unique_ptr<Pair>> pairs_;
  std::thread thread_;
};

}  // namespace nd::integrity
