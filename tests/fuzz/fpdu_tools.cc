// SPDX-License-Identifier: Apache-2.0
// A reference implementation, deliberately slow and simple.
#include "tests/fuzz/fpdu_tools.h"

#include <array>

namespace nd::fuzz {
namespace {

using provider::soft::wire::Fault;
using provider::soft::wire::Layer;

std::uint64_t Big(std::span<const std::uint8_t> bytes, std::size_t at, std::size_t count) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < count; ++i) value = value * 256 + bytes[at + i];
  return value;
}

constexpr Fault Rdmap(std::uint8_t type, std::uint8_t code) {
  return {Layer::kRdmap, type, code};
}
constexpr Fault Ddp(std::uint8_t type, std::uint8_t code) {
  return {Layer::kDdp, type, code};
}

}  // namespace

std::uint32_t PlainCrc32c(std::span<const std::uint8_t> bytes) {
  static const std::array<std::uint32_t, 256> table = [] {
    std::array<std::uint32_t, 256> made;
    for (std::uint32_t byte = 0; byte < 256; ++byte) {
      made[byte] = byte;
      for (int bit = 0; bit < 8; ++bit)
        made[byte] = (made[byte] >> 1) ^ ((made[byte] & 1) != 0 ? 0x82F63B78 : 0);
    }
    return made;
  }();
  std::uint32_t state = 0xFFFFFFFF;
  for (const std::uint8_t byte : bytes) state = table[(state ^ byte) & 0xFF] ^ (state >> 8);
  return ~state;
}

void RepairCrcs(std::span<std::uint8_t> stream) {
  while (stream.size() >= 2) {
    const std::size_t ulpdu = stream[0] * 256u + stream[1];
    const std::size_t covered = (2 + ulpdu + 3) / 4 * 4;
    if (stream.size() < covered + 4) return;
    const std::uint32_t crc = PlainCrc32c(stream.first(covered));
    for (unsigned i = 0; i < 4; ++i) stream[covered + i] = static_cast<std::uint8_t>(crc >> (8 * i));
    stream = stream.subspan(covered + 4);
  }
}

std::optional<Fault> JudgeSegment(std::span<const std::uint8_t> ulpdu, Header* h) {
  const Fault too_short{Layer::kLlp, 0, 3};
  if (ulpdu.size() < 2) return too_short;
  h->tagged = ulpdu[0] >= 0x80;
  h->last = (ulpdu[0] & 0x40) != 0;
  h->size = h->tagged ? 14 : 18;
  if ((ulpdu[0] & 3) != 1) return h->tagged ? Ddp(1, 4) : Ddp(2, 6);
  if (ulpdu.size() < h->size) return too_short;
  const std::size_t payload = ulpdu.size() - h->size;
  if (h->tagged) {
    h->stag = static_cast<std::uint32_t>(Big(ulpdu, 2, 4));
    h->offset = Big(ulpdu, 6, 8);
    // The last byte of the payload must have an offset of 64 bits.
    if (payload > 0 && h->offset + (payload - 1) < h->offset) return Ddp(1, 3);
  } else {
    h->invalidate = static_cast<std::uint32_t>(Big(ulpdu, 2, 4));
    h->queue = static_cast<std::uint32_t>(Big(ulpdu, 6, 4));
    h->msn = static_cast<std::uint32_t>(Big(ulpdu, 10, 4));
    h->message_offset = static_cast<std::uint32_t>(Big(ulpdu, 14, 4));
    if (std::uint64_t{h->message_offset} + payload >= std::uint64_t{1} << 32) return Ddp(2, 4);
  }
  if (ulpdu[1] >> 6 != 1) return Rdmap(2, 5);
  h->opcode = ulpdu[1] & 0x0F;
  if (h->opcode > 7) return Rdmap(2, 6);
  const bool wants_tagged = h->opcode == 0 || h->opcode == 2;
  if (wants_tagged != h->tagged) return Rdmap(2, 6);
  if (h->tagged) return std::nullopt;
  const unsigned wants_queue = h->opcode == 1 ? 1u : h->opcode == 7 ? 2u : 0u;
  if (h->queue != wants_queue) return h->queue > 2 ? Ddp(2, 1) : Rdmap(2, 6);
  if (wants_queue == 0) return std::nullopt;
  // A Read Request has 28 bytes, a Terminate at least 4, and neither is segmented.
  if (h->opcode == 1 && payload > 28) return Ddp(2, 5);
  if (h->message_offset != 0) return Ddp(2, 4);
  if (payload < (h->opcode == 1 ? 28u : 4u) || !h->last) return Rdmap(2, 0xFF);
  return std::nullopt;
}

}  // namespace nd::fuzz
