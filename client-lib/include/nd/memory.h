// SPDX-License-Identifier: Apache-2.0
// Memory that queue pairs may read and write.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "nd/protection.h"
#include "nd/status.h"
#include "nd/types.h"

namespace nd {

namespace provider {
class Buffer;
class MemoryRegion;
class MemoryWindow;
}  // namespace provider

// Zeroed memory that the library allocates. A peer process on the same host may map it, if it belongs to the
// same user or if policy allows it. Its Writes and Reads are then single copies and need no work on this
// side. Prefer a Buffer to malloc.
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

// A registered range of memory. Keep the region and its memory until every request that uses it is complete.
class MemoryRegion {
 public:
  MemoryRegion() = default;
  std::uint32_t local_token() const;   // For Sge::local_token.
  std::uint32_t remote_token() const;  // The peer needs it, with the address, for Read and Write.
  // A scatter/gather element for a range inside the region.
  Sge Slice(void* address, std::size_t length) const;
  // Returns DEVICE_BUSY while a window is bound to the region. Destroying the last handle also deregisters.
  Status Deregister();
  // Gives the region other memory, rights or options under the same tokens. Requests must not use it
  // meanwhile. DEVICE_BUSY as for Deregister(), NOT_SUPPORTED: the provider's devices cannot; the region is
  // as before then.
  Status Change(void* address, std::size_t length, std::uint32_t access, const RegionOptions& options);

 private:
  friend class Adapter;
  friend class QueuePair;
  explicit MemoryRegion(std::shared_ptr<provider::MemoryRegion> impl);
  std::shared_ptr<provider::MemoryRegion> impl_;
};

// A part of a region that QueuePair::BindWindow opens to the peer and QueuePair::Invalidate closes. Verbs
// windows (WindowKind) go beyond Network Direct; BindVerbsWindow and InvalidateToken are for them.
class MemoryWindow {
 public:
  MemoryWindow() = default;
  // The token of the newest bind; 0 before the first bind. Of a verbs window: its token before the first
  // bind.
  std::uint32_t remote_token() const;

 private:
  friend class Adapter;
  friend class QueuePair;
  explicit MemoryWindow(std::shared_ptr<provider::MemoryWindow> impl);
  std::shared_ptr<provider::MemoryWindow> impl_;
};

}  // namespace nd
