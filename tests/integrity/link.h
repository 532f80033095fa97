// SPDX-License-Identifier: Apache-2.0
// Memory, completion queue and connections of one side. One thread.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "nd/nd.h"
#include "tests/integrity/app.h"
#include "tests/integrity/stamp.h"

namespace nd::integrity {

inline constexpr std::uint32_t kEveryRight =
    kAllowLocalWrite | kAllowRemoteRead | kAllowRemoteWrite | kRdmaReadSink;
inline constexpr auto kPatience = std::chrono::seconds(120);

// A registered piece of memory: an nd::Buffer, which a peer on this host can map, or the application's own.
class Memory {
 public:
  Memory(Adapter& adapter, std::size_t size, bool heap);
  std::byte* data() const { return data_; }
  std::size_t size() const { return size_; }
  std::span<std::byte> At(std::size_t offset, std::size_t size) const { return {data_ + offset, size}; }
  std::uint64_t address(std::size_t offset = 0) const {
    return reinterpret_cast<std::uint64_t>(data_) + offset;
  }
  std::uint32_t token() const { return region_.remote_token(); }
  Sge Slice(std::size_t offset, std::size_t size) const { return region_.Slice(data_ + offset, size); }
  MemoryRegion& region() { return region_; }

 private:
  std::unique_ptr<std::byte[]> heap_;
  Buffer buffer_;
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
  MemoryRegion region_;
};

// The ways in which an application waits for completions.
enum class Waiting { kPoll, kWait, kNotify };
Waiting WaitingOf(const std::string& name);

class Completions {
 public:
  Completions(Adapter& adapter, std::uint32_t depth, Waiting waiting);
  CompletionQueue& queue() { return queue_; }
  // Waits for at least one completion; returns none after `patience`.
  std::span<const Completion> Next(std::chrono::milliseconds patience = kPatience);
  // Returns the completions that are present.
  std::span<const Completion> Poll();

 private:
  CompletionQueue queue_;
  Waiting waiting_;
  Completion batch_[32];
};

struct LinkOptions {
  std::uint32_t receive_depth = 64, initiator_depth = 256, sge = 16, inline_size = 256;
  SharedReceiveQueue* srq = nullptr;
  void* context = nullptr;
};

// One queue pair and its connection.
class Link {
 public:
  Link(Adapter& adapter, Completions& completions, const LinkOptions& options);
  QueuePair& pair() { return pair_; }
  Connector& connector() { return connector_; }
  // Active: connects, and tries again while there is no listener. Passive: accepts the next request.
  void Connect(const Address& from, const Address& to);
  void Accept(Listener& listener);
  // The side that finishes first disconnects; the other one waits for that and answers.
  void Disconnect();
  void AwaitGoodbye();
  void Close();

 private:
  QueuePair pair_;
  Connector connector_;
};

Adapter OpenFor(const Words& words);
Listener ListenAt(Adapter& adapter, const Address& at);
// Waits for the final status of an operation, with a limit. PENDING: the operation hung.
Status Await(Status begun, Request& request);

}  // namespace nd::integrity
