// SPDX-License-Identifier: Apache-2.0
// One end of a measured connection: queues, memory in slots, and the waiting that was asked for.
//
// One thread. A failed call leaves an object that can only be destroyed.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <deque>

#include "nd/nd.h"
#include "tests/bench/options.h"

namespace nd::perf {

// Longer silence than this means that something is broken, not slow.
inline constexpr std::chrono::seconds kStuck{30};

class Link {
 public:
  // Completion queue and memory: `slots` for sending, as many that the peer may write and read, `receives`
  // for incoming messages.
  Status Prepare(Adapter& adapter, const Options& options, std::uint32_t slots, std::uint32_t receives);
  // A fresh queue pair with every receive posted, and a fresh connector.
  Status NewQueuePair();

  // Active side: Connect and CompleteConnect.
  Status Connect(const Address& local, const Address& remote);
  // Passive side, with a connector() that holds a request.
  Status Accept();
  Status Disconnect();
  // Passive side of a connection that the other end closes: waits for its goodbye, then disconnects too.
  Status AwaitGoodbye();

  // Takes completions that are there, without waiting. Messages are kept for NextMessage().
  Status Poll();
  // Waits until at most `most` of our own requests are unfinished; they finish in the order of posting.
  Status AwaitRequests(std::uint32_t most);
  // Waits for the next message; its slot.
  Result<std::byte*> NextMessage();
  bool HasMessage() const { return !messages_.empty(); }

  // kOpSilentSuccess: not among the unfinished requests; what comes later says that it is done.
  Status Send(std::uint32_t slot, std::uint32_t length, std::uint32_t flags = 0);
  Status Write(std::uint32_t slot, std::uint32_t remote_slot, std::uint32_t flags = 0);
  Status Read(std::uint32_t slot, std::uint32_t remote_slot);
  // Gives a received message's slot back to the receive queue.
  Status Repost(std::byte* slot);

  // What comes next needs no processor of this side: waits asleep from now on, if a device does the work.
  void LeaveItToTheDevice() {
    if (on_device_ && waiting_ == Waiting::kPoll) waiting_ = Waiting::kBlock;
  }

  // The end of a test: the active side says that it is done, the passive side answers whether all was well.
  Status SayDone();
  Status AwaitVerdict();
  Status SendVerdict(bool well);

  std::byte* slot(std::uint32_t index) const { return buffer_.data() + index * stride_; }
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
  Buffer buffer_;
  MemoryRegion region_;
  QueuePair qp_;
  Connector connector_;
  std::deque<std::byte*> messages_;
  std::array<Completion, 16> done_;  // Of Poll().
  std::uint64_t peer_address_ = 0;
  std::uint32_t peer_token_ = 0;
};

}  // namespace nd::perf
