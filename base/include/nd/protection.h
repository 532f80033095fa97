// SPDX-License-Identifier: Apache-2.0
// What Network Direct does not have: domains, rights of queue pairs, regions with another base, windows of
// verbs.
#pragma once

#include <cstdint>
#include <optional>

#include "nd/types.h"

namespace nd {

// Of CompletionFlags, for a receive: the Send invalidated the window of token `immediate`.
inline constexpr std::uint8_t kCompletionInvalidated = 0x8;
// Of CompletionFlags, for an ACCESS_VIOLATION of an initiator request: the memory of the request itself
// cannot be used, so that the peer's memory is not to blame.
inline constexpr std::uint8_t kCompletionOwnMemory = 0x10;

// What goes beyond a plain registration.
struct RegionOptions {
  // Only queue pairs of this domain may use the region. Region and queue pairs that name none have domain 0.
  std::uint32_t domain = 0;
  // The address that requests of peers name for the first byte. Empty: its address in this process.
  std::optional<std::uint64_t> remote_base{};
};

// The restrictions of a queue pair. By default there are none.
struct Protection {
  std::uint32_t domain = 0;           // Of its regions.
  std::uint32_t receive_domain = 0;   // Of the regions of its receives, which may be those of a shared queue.
  std::uint32_t remote_access = ~0u;  // MemoryAccess that the peer has at most.
};

// How a memory window gets its token, and for whom it opens its region.
enum class WindowKind : std::uint8_t {
  kNetworkDirect = 0,  // A random token at each post of a bind. For the queue pair that binds.
  kVerbsType1 = 1,     // The caller chooses the low 8 bits. For every queue pair of the region's domain.
  kVerbsType2 = 2,     // As type 1, but for the queue pair that binds, and only after it was invalidated.
};

// A bind of a verbs window. It is judged and executed in its turn, not at the post.
struct WindowBinding {
  std::uint64_t address = 0;  // As requests of peers name it.
  std::uint64_t length = 0;   // 0, type 1 only: the window ends.
  std::uint32_t access = 0;   // MemoryAccess; remote rights only.
  std::uint32_t token = 0;    // The token of the window with any low 8 bits.
};

}  // namespace nd
