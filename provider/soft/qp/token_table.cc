// SPDX-License-Identifier: Apache-2.0
// Assigns unpredictable STags and publishes their regions.
#include "provider/soft/qp/token_table.h"

#include <span>

#include "base/os/random.h"

namespace nd::provider::soft {

Result<std::unique_ptr<TokenTable>> TokenTable::Create() {
  std::unique_ptr<TokenTable> table(new TokenTable);
  auto fd = CreateReadOnlyMemfd("ndbroker-regions", kRegionTableSize, &table->mapping_);
  if (!fd.ok()) return fd.status();
  table->fd_ = std::move(fd).value();
  table->entries_ = reinterpret_cast<RegionEntry*>(table->mapping_.data());
  return table;
}

std::uint32_t TokenTable::Random() {
  if (random_.empty()) {
    random_.resize(64);
    os::FillWithRandom(std::as_writable_bytes(std::span(random_)));
  }
  const std::uint32_t value = random_.back();
  random_.pop_back();
  return value;
}

Result<std::uint32_t> TokenTable::Reserve() {
  std::lock_guard lock(mutex_);
  // A quarter stays free, so that a random probe finds a slot quickly.
  if (live_ >= kRegionSlots / 4 * 3) {
    return Status(StatusCode::kInsufficientResources, "too many memory regions and windows are registered");
  }
  for (;;) {
    const std::uint32_t stag = Random();
    // No low 8 bits, which the owner of a window chooses, make it 0.
    if (stag >> 8 == 0 || reserved_[SlotOf(stag)]) continue;
    reserved_[SlotOf(stag)] = true;
    ++live_;
    return stag;
  }
}

void TokenTable::Publish(std::uint32_t stag, const RegionView& view) {
  RegionEntry& entry = entries_[SlotOf(stag)];
  // A reader with the former STag of the slot compares it again after reading these fields.
  std::atomic_thread_fence(std::memory_order_release);
  entry.access.store(view.access, std::memory_order_relaxed);
  entry.base.store(view.base, std::memory_order_relaxed);
  entry.length.store(view.length, std::memory_order_relaxed);
  // A peer that accesses the memory itself does not see the restrictions of the queue pair here, and the end
  // of a window that every queue pair may use does not wait for the peers of all.
  const bool by_owner = view.domain != 0 || (view.window && view.queue_pair == 0);
  entry.buffer.store(by_owner ? 0 : view.buffer, std::memory_order_relaxed);
  entry.queue_pair.store(view.queue_pair, std::memory_order_relaxed);
  entry.buffer_offset.store(view.buffer_offset, std::memory_order_relaxed);
  entry.shift.store(view.shift, std::memory_order_relaxed);
  entry.domain.store(view.domain, std::memory_order_relaxed);
  entry.borrowed.store(view.borrowed, std::memory_order_relaxed);
  entry.window.store(view.window ? 1 : 0, std::memory_order_relaxed);
  entry.stag.store(stag, std::memory_order_release);
  changes_.fetch_add(1, std::memory_order_release);
}

Result<std::uint32_t> TokenTable::Insert(const RegionView& view) {
  auto stag = Reserve();
  if (stag.ok()) Publish(*stag, view);
  return stag;
}

void TokenTable::Withdraw(std::uint32_t stag) {
  RegionEntry& entry = entries_[SlotOf(stag)];
  if (stag != 0 && entry.stag.load(std::memory_order_relaxed) == stag) {
    entry.stag.store(0, std::memory_order_seq_cst);
    changes_.fetch_add(1, std::memory_order_seq_cst);
  }
}

void TokenTable::Release(std::uint32_t stag) {
  std::lock_guard lock(mutex_);
  if (!reserved_[SlotOf(stag)]) return;
  reserved_[SlotOf(stag)] = false;
  --live_;
}

void TokenTable::Remove(std::uint32_t stag) {
  std::lock_guard lock(mutex_);
  if (stag == 0 || entries_[SlotOf(stag)].stag.load(std::memory_order_relaxed) != stag) return;
  Withdraw(stag);
  reserved_[SlotOf(stag)] = false;
  --live_;
}

}  // namespace nd::provider::soft
