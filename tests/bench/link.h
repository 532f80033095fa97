// SPDX-License-Identifier: Apache-2.0
// One end of a measured connection: queues, memory in slots, and the requested way of waiting.
//
// One thread. A failed call leaves an object that can only be destroyed.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <deque>
#include <vector>

#include "nd/nd.h"
#include "tests/bench/options.h"

namespace nd::perf {

// A longer silence means an error, not slowness.
inline constexpr std::chrono::seconds kStuck{30};

// Of a loop that polls. Most loops end before it reads the clock, which takes as long as a short Write.
class Patience {
 public:
  // Called in each round. Returns true when the loop has taken longer than kStuck.
  bool Ended() {
    if (++rounds_ % kRoundsBetweenLooks != 0) return false;
    const auto now = std::chrono::steady_clock::now();
    if (rounds_ == kRoundsBetweenLooks) end_ = now + kStuck;
    return now > end_;
  }

 private:
  static constexpr std::uint64_t kRoundsBetweenLooks = 4096;
  std::uint64_t rounds_ = 0;
  std::chrono::steady_clock::time_point end_;
};

class Link {
 public:
  // Makes the completion queue and memory: `slots` for sending, as many for Writes and Reads of the peer,
  // `receives` for incoming messages.
  Status Prepare(Adapter& adapter, const Options& options, std::uint32_t slots, std::uint32_t receives);
  // Makes a new queue pair with every receive posted, and a new connector.
  Status NewQueuePair();

  // Active side: Connect and CompleteConnect.
  Status Connect(const Address& local, const Address& remote);
  // Passive side, with a connector() that holds a request.
  Status Accept();
  Status Disconnect();
  // For the passive side when the other end disconnects: waits for that, then disconnects too.
  Status AwaitGoodbye();

  // Takes completions without waiting. Messages are kept for NextMessage().
  Status Poll();
  // Waits until at most `most` of our own requests are unfinished; they finish in the order of posting.
  Status AwaitRequests(std::uint32_t most);
  // Waits for the next message and returns its slot.
  Result<std::byte*> NextMessage();
  bool HasMessage() const { return !messages_.empty(); }

  // With kOpSilentSuccess the request does not count as unfinished; a later completion shows that it is done.
  Status Send(std::uint32_t slot, std::uint32_t length, std::uint32_t flags = 0);
  Status Write(std::uint32_t slot, std::uint32_t remote_slot, std::uint32_t flags = 0);
  Status Read(std::uint32_t slot, std::uint32_t remote_slot);
  // Posts the slot of a received message again.
  Status Repost(std::byte* slot);

  // The following work needs no processor on this side: from now on it sleeps while waiting, if a device
  // moves the data.
  void LeaveItToTheDevice() {
    if (on_device_ && waiting_ == Waiting::kPoll) waiting_ = Waiting::kBlock;
  }

  // Ends a test: the active side reports that it is done, and the passive side answers whether all data was
  // right.
  Status SayDone();
  Status AwaitVerdict();
  Status SendVerdict(bool well);

  std::byte* slot(std::uint32_t index) const { return memory_ + index * stride_; }
  std::byte* exposed(std::uint32_t index) const { return slot(slots_ + index); }
  Connector& connector() { return connector_; }

 private:
  std::byte* receive_slot(std::uint32_t index) const { return slot(2 * slots_ + index); }
  Status Wait();
  Status Sleep();
  Status TakePeerMemory();

  Adapter adapter_;
  const Options* options_ = nullptr;
  Waiting waiting_ = Waiting::kPoll;
  bool on_device_ = false;
  std::uint32_t slots_ = 0, receives_ = 0, outstanding_ = 0;
  std::size_t stride_ = 0;
  CompletionQueue cq_;
  std::byte* memory_ = nullptr;  // All the slots: in buffer_, or in ordinary_.
  Buffer buffer_;
  std::vector<std::byte> ordinary_;
  MemoryRegion region_;
  QueuePair qp_;
  Connector connector_;
  std::deque<std::byte*> messages_;
  std::array<Completion, 16> done_;  // Of Poll().
  std::uint64_t peer_address_ = 0;
  std::uint32_t peer_token_ = 0;
};

}  // namespace nd::perf
