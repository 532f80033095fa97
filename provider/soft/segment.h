// SPDX-License-Identifier: Apache-2.0
// The shared segment of a connection within one host, as far as the broker knows it: its size, and that all
// zeros is a valid initial state. The queue pairs define its layout (provider/soft/qp/).
#pragma once

#include <cstddef>

namespace nd::provider::soft {

inline constexpr std::size_t kSegmentSize = 2 * 128 * 1024 + 4096;

}  // namespace nd::provider::soft
