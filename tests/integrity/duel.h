// SPDX-License-Identifier: Apache-2.0
// Two sides of one connection that check one ordering rule for many rounds. Each knows the memory of the
// other, keeps a few receives posted and separates completions by kind. One thread.
#pragma once

#include <deque>
#include <optional>
#include <string>

#include "tests/integrity/link.h"

namespace nd::integrity {

class Duel {
 public:
  static constexpr std::size_t kSlot = 4096;   // Of memory(), for one round of a batch.
  static constexpr std::uint32_t kBatch = 16;  // Rounds between two calls of Meet().
  static constexpr std::uint32_t kReceives = 32;

  // Connects and exchanges memory(): kBatch slots for each of four uses.
  explicit Duel(const Words& words);
  // Disconnects and closes.
  void End();

  bool active() const { return active_; }
  Adapter& adapter() { return adapter_; }
  Link& link() { return *link_; }
  Memory& memory() { return memory_; }
  // A slot for use `use` (0 to 3) on this side, and its address on the peer.
  std::span<std::byte> Slot(std::uint32_t use, std::uint32_t index) const {
    return memory_.At(Place(use, index), kSlot);
  }
  Sge Local(std::uint32_t use, std::uint32_t index, std::size_t size) const {
    return memory_.Slice(Place(use, index), size);
  }
  std::uint64_t Remote(std::uint32_t use, std::uint32_t index) const {
    return peer_address_ + Place(use, index);
  }
  std::uint32_t remote_token() const { return peer_token_; }

  // Posts a request. Completions must come in the order of posting, each with SUCCESS.
  void Write(const Sge& from, std::uint64_t to, std::uint32_t flags = 0, std::uint32_t token = 0);
  void Read(const Sge& to, std::uint64_t from, std::uint32_t flags = 0);
  void Send(const Sge& from, std::uint32_t flags = 0);
  void Tell(std::uint64_t value, std::uint32_t invalidate = 0);  // A Send of 8 bytes.
  void Bind(MemoryRegion& region, MemoryWindow& window, void* address, std::size_t size);
  void Invalidate(MemoryWindow& window);
  // Waits until all posted requests are complete.
  void Finish();
  std::uint64_t next_context() const { return posted_ + 1; }

  // Returns the next message. The following call posts its receive again. Receives complete in order.
  std::span<const std::byte> Hear();
  std::uint64_t HearValue();
  // Returns when both sides have called it and no request is outstanding.
  void Meet();
  [[noreturn]] void Fault(const std::string& what) const;
  void set_round(std::uint64_t round) { round_ = round; }

  // For rules that end the connection: the oldest initiator completion, with any status.
  Completion Oldest();

 private:
  static std::size_t Place(std::uint32_t use, std::uint32_t index) { return (use * kBatch + index) * kSlot; }
  void* Count(std::uint32_t flags);
  void Take();
  void PostReceive(std::uint32_t slot);

  bool active_;
  std::string rule_;
  Adapter adapter_;
  Completions completions_;
  Memory memory_, messages_;
  std::optional<Link> link_;
  Listener listener_;
  std::uint64_t peer_address_ = 0;
  std::uint32_t peer_token_ = 0;
  std::uint64_t posted_ = 0, round_ = 0, values_ = 0;
  std::deque<std::uint64_t> expected_;  // Contexts of signalled requests.
  std::deque<Completion> initiated_, received_;
  std::optional<std::uint32_t> heard_;
  std::uint32_t next_receive_ = 0;
};

}  // namespace nd::integrity
