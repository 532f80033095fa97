// SPDX-License-Identifier: Apache-2.0
// The page in which peers announce that they have published something, so that a poll need not look at each
// of their connections. Each completion queue with many connections has one; every peer of the same user maps
// it, and each connection has a counter in it.
//
// A peer stores its record and then changes its counter; it never omits that. The owner compares all counters
// with those of the last poll, and then looks at the connections whose counters are different. So a record
// whose change the owner has noticed is visible to that look; no barrier is needed, and the owner writes
// nothing.
//
// The counters are hints of hostile peers. One that changes for nothing costs a look. One that another
// process of the same user has set back delays that connection until the owner looks at it in its turn
// (PollSet).
//
// Calls of this process that give a poll something to do have one bit for each connection instead.
#pragma once

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <utility>

#include "base/memfd.h"
#include "base/unique_fd.h"

namespace nd::provider::soft {

// The layout is part of docs/wire.md. All zeros is a fresh one.
struct ReadyCounters {
  static constexpr std::uint32_t kPlaces = 8192;

  std::atomic<std::uint16_t> at[kPlaces];
};
static_assert(sizeof(ReadyCounters) == 16384);

class ReadyPage {
 public:
  static constexpr std::uint32_t kPlaces = ReadyCounters::kPlaces;

  // Null: the kernel gives no memory.
  static std::unique_ptr<ReadyPage> Create() {
    auto fd = CreateSealedMemfd("ndbroker-ready", sizeof(ReadyCounters));
    if (!fd.ok()) return nullptr;
    auto mapping = Mapping::Map(fd->get(), sizeof(ReadyCounters), /*writable=*/true);
    if (!mapping.ok()) return nullptr;
    mapping->KeepFromChildren();
    return std::unique_ptr<ReadyPage>(new ReadyPage(std::move(fd).value(), std::move(mapping).value()));
  }
  int fd() const { return fd_.get(); }

  // Any thread of this process.
  void AnnounceHere(std::uint32_t place) {
    here_[place / 64].fetch_or(std::uint64_t{1} << place % 64, std::memory_order_release);
    any_here_.store(true, std::memory_order_release);
  }
  // Calls `visit` with each place that was announced since the last call. One thread at a time. `places`:
  // those in use.
  template <typename Visit>
  void Take(std::size_t places, Visit&& visit) {
    for (std::size_t from = 0; from < places; from += kTogether) {
      const std::size_t count = std::min(kTogether, places - from);
      // The peers write meanwhile. A change that this overlooks is noticed by the next call.
      if (std::memcmp(seen_ + from, counters_.at + from, count * sizeof(std::uint16_t)) != 0) [[unlikely]]
        TakeChanges(from, from + count, visit);
    }
    if (any_here_.load(std::memory_order_relaxed)) [[unlikely]]
      TakeHere(places, visit);
  }

 private:
  static constexpr std::size_t kTogether = 256;

  ReadyPage(UniqueFd fd, Mapping mapping)
      : fd_(std::move(fd)),
        mapping_(std::move(mapping)),
        counters_(*reinterpret_cast<ReadyCounters*>(mapping_.data())) {}

  template <typename Visit>
  void TakeChanges(std::size_t from, std::size_t to, Visit&& visit) {
    constexpr std::size_t kWord = sizeof(std::uint64_t) / sizeof(std::uint16_t);
    for (std::size_t word = from; word < to; word += kWord) {
      if (std::memcmp(seen_ + word, counters_.at + word, sizeof(std::uint64_t)) == 0) continue;
      for (std::size_t place = word; place < word + kWord; ++place) {
        const std::uint16_t now = counters_.at[place].load(std::memory_order_acquire);
        if (std::exchange(seen_[place], now) != now) visit(static_cast<std::uint32_t>(place));
      }
    }
  }
  template <typename Visit>
  void TakeHere(std::size_t places, Visit&& visit) {
    // The bits that made it true are visible then. A later bit makes it true again.
    any_here_.exchange(false, std::memory_order_acq_rel);
    for (std::uint32_t word = 0; word * 64 < places; ++word) {
      if (here_[word].load(std::memory_order_relaxed) == 0) continue;
      for (auto bits = here_[word].exchange(0, std::memory_order_acq_rel); bits != 0; bits &= bits - 1)
        visit(word * 64 + static_cast<std::uint32_t>(std::countr_zero(bits)));
    }
  }

  UniqueFd fd_;
  Mapping mapping_;
  const ReadyCounters& counters_;
  std::atomic<bool> any_here_{false};
  std::atomic<std::uint64_t> here_[kPlaces / 64]{};
  alignas(64) std::uint16_t seen_[kPlaces]{};
};

}  // namespace nd::provider::soft
