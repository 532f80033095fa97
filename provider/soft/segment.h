// SPDX-License-Identifier: Apache-2.0
// The shared segment of a connection within one host, as far as the broker knows it: its size, its beginning,
// and that all zeros is a valid initial state too. The queue pairs define its layout (provider/soft/qp/).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace nd::provider::soft {

inline constexpr std::size_t kSegmentSize = 2 * 128 * 1024 + 4096;

// Each side has a word that says that it sleeps. With this value the other side rings for everything.
inline constexpr std::size_t kArmedWords[] = {64, 320};
inline constexpr std::uint32_t kArmed = 1;

// The beginning of a segment whose sides both sleep from the start, so that neither of them has to arm before
// it sleeps for the first time.
inline constexpr auto kBothAsleep = [] {
  std::array<std::uint32_t, kArmedWords[1] / sizeof kArmed + 1> words{};
  for (const std::size_t at : kArmedWords) words[at / sizeof kArmed] = kArmed;
  return words;
}();

}  // namespace nd::provider::soft
