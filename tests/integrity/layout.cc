// SPDX-License-Identifier: Apache-2.0
// Difficult sizes: 0, one byte more or less than a power of two, cuts at any byte.
#include "tests/integrity/layout.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace nd::integrity {
namespace {

constexpr std::size_t kLookBehind = 64;  // Bytes behind a message that are checked.

std::span<std::byte> BytesOf(const Sge& sge) {
  return {static_cast<std::byte*>(sge.address), sge.length};
}

void Paint(std::span<std::byte> bytes) {
  if (!bytes.empty()) std::memset(bytes.data(), std::to_integer<int>(kCanary), bytes.size());
}

// Calls `f` with each gap of the used part of the area.
template <typename F>
void ForEachGap(const Round& round, F&& call) {
  std::size_t at = 0;
  for (const Piece& piece : round.pieces) {
    call(at, piece.place - at);
    at = piece.place + piece.size;
  }
  call(at, round.used - at);
}

}  // namespace

std::uint32_t DrawSize(Random& random, std::uint32_t most) {
  const auto up_to = [&](std::uint32_t bound) { return random.Below(std::min(bound, most) + 1); };
  switch (random.Below(16)) {
    case 0:
      return 0;
    case 1:
      return most;
    case 2:
    case 3:
    case 4: {  // A size close to a power of two.
      const auto power = std::uint32_t{1} << random.Below(static_cast<std::uint32_t>(std::bit_width(most)));
      return std::min(most, power - 1 + random.Below(3));
    }
    case 5:
    case 6:
    case 7:
      return up_to(64);
    case 8:
    case 9:
    case 10:
      return up_to(4096);
    case 11:
    case 12:
    case 13:
      return up_to(65536);
    case 14:
      return up_to(1 << 20);
    default:
      return up_to(most);
  }
}

Round DrawRound(std::uint64_t seed, std::uint64_t number, std::uint64_t offset, std::uint64_t left,
                std::uint32_t most) {
  Random random(seed ^ (number * 0xD1342543DE82EF95ULL));
  Round round;
  round.end = offset;
  std::size_t place = random.Below(64);
  std::size_t room = most + most / 2 + 65536;
  while (round.pieces.size() < kMostPieces && left != 0) {
    std::uint32_t size = DrawSize(random, most);
    if (size > left) size = static_cast<std::uint32_t>(left);
    if (size > room) break;
    round.pieces.push_back({place, size, round.end});
    room -= size;
    left -= size;
    round.end += size;
    place += size + 1 + random.Below(63);
  }
  round.used = place;
  return round;
}

void PaintGaps(const Round& round, std::span<std::byte> area) {
  ForEachGap(round, [&](std::size_t at, std::size_t size) { Paint(area.subspan(at, size)); });
}

std::optional<std::string> CheckRound(const Round& round, const Stream& stream,
                                      std::span<const std::byte> area) {
  for (const Piece& piece : round.pieces) {
    if (auto fault = Check(stream, piece.offset, area.subspan(piece.place, piece.size))) return fault;
  }
  std::optional<std::string> fault;
  ForEachGap(round, [&](std::size_t at, std::size_t size) {
    if (!fault) fault = CheckCanary(area.subspan(at, size));
  });
  return fault;
}

Scatter::Scatter(Random& random, const Memory& memory, std::size_t at, std::uint32_t size,
                 std::uint32_t most) {
  std::uint32_t count = 1;
  if (random.OneIn(2)) count = 1 + random.Below(most);
  if (random.OneIn(8)) count = most;
  std::vector<std::uint32_t> cuts = {0, size};
  for (std::uint32_t i = 1; i < count; ++i) cuts.push_back(size == 0 ? 0 : random.Below(size + 1));
  std::sort(cuts.begin(), cuts.end());
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::size_t gap = random.Below(64);
    gaps_.push_back(memory.At(at, gap));
    at += gap;
    const std::uint32_t length = cuts[i + 1] - cuts[i];
    sges_.push_back(memory.Slice(at, length));
    at += length;
  }
  gaps_.push_back(memory.At(at, 1 + random.Below(63)));
}

void Scatter::Fill(const Stream& stream, std::uint64_t offset) const {
  for (const Sge& sge : sges_) {
    integrity::Fill(stream, offset, BytesOf(sge));
    offset += sge.length;
  }
}

void Scatter::PaintAll() const {
  for (const auto& gap : gaps_) Paint(gap);
  for (const Sge& sge : sges_) Paint(BytesOf(sge));
}

void Scatter::PaintFront(std::uint32_t size) const {
  for (const Sge& sge : sges_) {
    const std::uint32_t mine = std::min(size, sge.length);
    Paint(BytesOf(sge).first(mine));
    size -= mine;
  }
}

std::optional<std::string> Scatter::Check(const Stream& stream, std::uint64_t offset,
                                          std::uint32_t size) const {
  std::size_t behind = kLookBehind;
  for (const Sge& sge : sges_) {
    const std::span<std::byte> bytes = BytesOf(sge);
    const std::size_t mine = std::min<std::size_t>(size, bytes.size());
    if (auto fault = integrity::Check(stream, offset, bytes.first(mine))) return fault;
    offset += mine;
    size -= static_cast<std::uint32_t>(mine);
    const std::size_t rest = std::min(behind, bytes.size() - mine);
    if (auto fault = CheckCanary(bytes.subspan(mine, rest))) return fault;
    behind -= rest;
  }
  if (size != 0) return std::to_string(size) + " bytes more than there is room for";
  for (const auto& gap : gaps_) {
    if (auto fault = CheckCanary(gap)) return fault;
  }
  return std::nullopt;
}

}  // namespace nd::integrity
