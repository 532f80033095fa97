// SPDX-License-Identifier: Apache-2.0
// The request whose pieces are being sent.
#pragma once

#include <cstdint>

#include "provider/soft/qp/work_queue.h"

namespace nd::provider::soft {

// Not the position of a request: an answer to the peer, or a request that was flushed.
inline constexpr std::uint64_t kNoRequest = ~std::uint64_t{0};

struct PartialRequest {
  std::uint64_t position = kNoRequest;  // In the initiator queue.
  SgeCursor from;                       // Behind the bytes that were sent.
  std::uint32_t done = 0;               // The number of bytes that were sent.

  bool active() const { return position != kNoRequest; }
  void Begin(std::uint64_t at, const SgeList& list) {
    position = at;
    from = SgeCursor(list);
    done = 0;
  }
  void End() { position = kNoRequest; }
};

}  // namespace nd::provider::soft
