// SPDX-License-Identifier: Apache-2.0
// What the broker knows of a same-host connection's shared segment: its size, and that all zeros is its
// valid initial state. The layout itself is the queue pairs' business (provider/soft/qp/).
#pragma once

#include <cstddef>

namespace nd::provider::soft {

inline constexpr std::size_t kSegmentSize = 2 * 128 * 1024 + 4096;

}  // namespace nd::provider::soft
