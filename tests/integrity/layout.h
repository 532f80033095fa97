// SPDX-License-Identifier: Apache-2.0
// Where the pieces of a stream go: decided by a seed, so that both sides know without telling each other.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tests/integrity/link.h"
#include "tests/integrity/stamp.h"

namespace nd::integrity {

// The size of a message: nothing, odd bytes, around each power of two, up to `most` and `most` itself.
std::uint32_t DrawSize(Random& random, std::uint32_t most);

struct Piece {
  std::size_t place = 0;  // In the area; seldom aligned.
  std::uint32_t size = 0;
  std::uint64_t offset = 0;  // In the stream.
};

// One round of pieces in an area of remote memory, with gaps between them that must stay as they are.
struct Round {
  std::vector<Piece> pieces;
  std::uint64_t end = 0;  // The stream's offset behind it.
  std::size_t used = 0;   // Of the area.
};
inline constexpr std::size_t kMostPieces = 48;
// An area in which a round of pieces of at most `most` bytes fits.
constexpr std::size_t AreaSize(std::uint32_t most) {
  return most + most / 2 + 65536 + kMostPieces * 64 + 64;
}
// Round `number` of the stream: from its offset on, at most `left` bytes.
Round DrawRound(std::uint64_t seed, std::uint64_t number, std::uint64_t offset, std::uint64_t left,
                std::uint32_t most);
void PaintGaps(const Round& round, std::span<std::byte> area);
// Nothing, or what is wrong in the area.
std::optional<std::string> CheckRound(const Round& round, const Stream& stream,
                                      std::span<const std::byte> area);

// Local memory of one request: elements one behind the other with gaps of canaries between them.
class Scatter {
 public:
  static constexpr std::size_t kOverhead = 17 * 64;
  // Cuts `size` bytes into 1 to `most` elements in the slot at `at`, which has size + kOverhead bytes.
  Scatter(Random& random, const Memory& memory, std::size_t at, std::uint32_t size, std::uint32_t most);
  Scatter() = default;
  std::span<const Sge> sges() const { return sges_; }
  void Fill(const Stream& stream, std::uint64_t offset) const;
  // The first `size` bytes are the stream's at `offset`, the rest and all gaps are untouched (of the rest
  // only the first bytes are looked at). PaintAll() before.
  std::optional<std::string> Check(const Stream& stream, std::uint64_t offset, std::uint32_t size) const;
  // The gaps, and all elements too: nothing that was there before can pass as received.
  void PaintAll() const;
  // Only the first `size` bytes of the elements.
  void PaintFront(std::uint32_t size) const;

 private:
  std::vector<Sge> sges_;
  std::vector<std::span<std::byte>> gaps_;
};

}  // namespace nd::integrity
