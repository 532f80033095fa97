// SPDX-License-Identifier: Apache-2.0
// The layout of the pieces of a stream. A seed determines it, so that both sides know it without a message.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tests/integrity/link.h"
#include "tests/integrity/stamp.h"

namespace nd::integrity {

// Draws the size of a message: 0, odd sizes, sizes around powers of two, and `most`.
std::uint32_t DrawSize(Random& random, std::uint32_t most);

struct Piece {
  std::size_t place = 0;  // In the area; usually not aligned.
  std::uint32_t size = 0;
  std::uint64_t offset = 0;  // In the stream.
};

// One round of pieces in an area of remote memory. The gaps between the pieces must not change.
struct Round {
  std::vector<Piece> pieces;
  std::uint64_t end = 0;  // The offset in the stream behind the round.
  std::size_t used = 0;   // Bytes of the area.
};
inline constexpr std::size_t kMostPieces = 48;
// The size of an area for a round of pieces of at most `most` bytes.
constexpr std::size_t AreaSize(std::uint32_t most) {
  return most + most / 2 + 65536 + kMostPieces * 64 + 64;
}
// Draws round `number` of the stream: at most `left` bytes from `offset` on.
Round DrawRound(std::uint64_t seed, std::uint64_t number, std::uint64_t offset, std::uint64_t left,
                std::uint32_t most);
void PaintGaps(const Round& round, std::span<std::byte> area);
// Returns a description of the first error in the area, or no value.
std::optional<std::string> CheckRound(const Round& round, const Stream& stream,
                                      std::span<const std::byte> area);

// The local memory of one request: consecutive elements with canaries between them.
class Scatter {
 public:
  static constexpr std::size_t kOverhead = 17 * 64;
  // Cuts `size` bytes into 1 to `most` elements in the slot at `at`, which has size + kOverhead bytes.
  Scatter(Random& random, const Memory& memory, std::size_t at, std::uint32_t size, std::uint32_t most);
  Scatter() = default;
  std::span<const Sge> sges() const { return sges_; }
  void Fill(const Stream& stream, std::uint64_t offset) const;
  // Checks that the first `size` bytes are those of the stream at `offset` and that the rest and all gaps are
  // unchanged. Of the rest only the first bytes are checked. Call PaintAll() before the request.
  std::optional<std::string> Check(const Stream& stream, std::uint64_t offset, std::uint32_t size) const;
  // Paints the gaps and all elements, so that old contents cannot pass as received data.
  void PaintAll() const;
  // Paints only the first `size` bytes of the elements.
  void PaintFront(std::uint32_t size) const;

 private:
  std::vector<Sge> sges_;
  std::vector<std::span<std::byte>> gaps_;
};

}  // namespace nd::integrity
