// SPDX-License-Identifier: Apache-2.0
// The wire between two brokers: passes TCP connections on and flips one bit of each when it is told to. It
// reads the start-up frames and the lengths of FPDUs by itself, sharing no code with the product. One thread
// of its own; Plan() and counters from any.
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

// Which bit of a connection: of the stream behind the start-up frames, or of one whole frame in it.
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
  // Listens at address:from, passes on to address:to, coming from `source`. Check error().
  Relay(const std::string& address, std::uint16_t from, std::uint16_t to, const std::string& source);
  ~Relay();
  Relay(const Relay&) = delete;
  Relay& operator=(const Relay&) = delete;
  const std::string& error() const { return error_; }
  // What to flip in the n-th connection that gets through its start-up, counted from 0 from now on.
  void SetPlan(std::function<Flip(std::uint64_t connection)> plan);
  std::uint64_t connections() const { return connections_; }
  std::uint64_t flipped() const { return flipped_; }
  // Whole size of the frame that the last in_frame flip was in.
  std::uint64_t frame_size() const { return frame_size_; }

 private:
  // One direction.
  struct Way {
    UniqueFd* from = nullptr;
    UniqueFd* to = nullptr;
    std::vector<std::uint8_t> waiting;  // Read, not yet passed on.
    std::vector<std::uint8_t> head;     // Start-up frame so far.
    bool started = false;               // The start-up frame is through.
    std::uint64_t streamed = 0;         // Bytes behind it.
    std::uint32_t frame = 0;            // Number of the current frame.
    std::uint64_t in_frame = 0;         // Bytes of it so far.
    std::uint64_t frame_size = 0;       // 0: its length is not here yet.
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
  // False: this pair is over.
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
