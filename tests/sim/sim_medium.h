// SPDX-License-Identifier: Apache-2.0
// The medium of the lease journal of a simulated host: memory that survives the broker and fails like a disk.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "daemon/state/journal.h"
#include "tests/sim/memory.h"

namespace nd::sim {

struct Disk {
  std::vector<std::byte> image;
  bool full = false;        // Every write fails.
  std::size_t tear_at = 0;  // Not 0: the next write stops after this many bytes and fails.
  std::uint64_t calls = 0;
};

class SimMedium final : public state::Medium {
 public:
  SimMedium(std::shared_ptr<Disk> disk, const Memory& memory) : disk_(std::move(disk)), memory_(memory) {}

  Result<std::vector<std::byte>> Read() override { return disk_->image; }
  Status Write(std::size_t offset, std::span<const std::byte> bytes) override {
    if (memory_.gone()) return {};
    ++disk_->calls;
    std::size_t size = bytes.size();
    if (disk_->full) return Full();
    const bool torn = disk_->tear_at != 0;
    if (torn) size = std::min(size, std::exchange(disk_->tear_at, 0));
    if (disk_->image.size() < offset + size) disk_->image.resize(offset + size);
    std::copy_n(bytes.begin(), size, disk_->image.begin() + static_cast<std::ptrdiff_t>(offset));
    return torn ? Full() : Status();
  }
  Status Replace(std::span<const std::byte> image) override {
    if (memory_.gone()) return {};
    ++disk_->calls;
    if (disk_->full) return Full();
    disk_->image.assign(image.begin(), image.end());
    return {};
  }
  void Discard() override {
    if (memory_.gone()) return;
    ++disk_->calls;
    disk_->image.clear();
  }
  Status SetAside() override {
    if (memory_.gone()) return {};
    ++disk_->calls;
    if (disk_->full) return Full();
    disk_->image.clear();
    return {};
  }

 private:
  static Status Full() { return {StatusCode::kInsufficientResources, "The disk is full."}; }
  const std::shared_ptr<Disk> disk_;
  const Memory& memory_;
};

}  // namespace nd::sim
