// SPDX-License-Identifier: Apache-2.0
// Memory that queue pairs may touch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "nd/status.h"
#include "nd/types.h"

namespace nd {

namespace provider {
class Buffer;
class MemoryRegion;
class MemoryWindow;
}  // namespace provider

// Zeroed memory from the library. A peer process on the same host that may (same user, or policy) maps it,
// and then its Writes and Reads are single copies without any work on this side. Prefer it to malloc.
class Buffer {
 public:
  Buffer() = default;
  std::byte* data() const;
  std::size_t size() const;
  std::span<std::byte> span() const { return {data(), size()}; }

 private:
  friend class Adapter;
  explicit Buffer(std::shared_ptr<provider::Buffer> impl);
  std::shared_ptr<provider::Buffer> impl_;
};

// A registered range. Keep it, and the memory, until every request that names it has completed.
class MemoryRegion {
 public:
  MemoryRegion() = default;
  std::uint32_t local_token() const;   // For Sge::local_token.
  std::uint32_t remote_token() const;  // Give it to the peer, with the address, for Read and Write.
  // One piece of it as a scatter/gather element; for ranges inside the region.
  Sge Slice(void* address, std::size_t length) const;
  // DEVICE_BUSY while a window is bound to it. Destroying the last handle deregisters too.
  Status Deregister();

 private:
  friend class Adapter;
  friend class QueuePair;
  explicit MemoryRegion(std::shared_ptr<provider::MemoryRegion> impl);
  std::shared_ptr<provider::MemoryRegion> impl_;
};

// A part of a region that is opened to the peer by QueuePair::BindWindow and shut by Invalidate.
class MemoryWindow {
 public:
  MemoryWindow() = default;
  // Of the newest bind; 0 before the first.
  std::uint32_t remote_token() const;

 private:
  friend class Adapter;
  friend class QueuePair;
  explicit MemoryWindow(std::shared_ptr<provider::MemoryWindow> impl);
  std::shared_ptr<provider::MemoryWindow> impl_;
};

}  // namespace nd
