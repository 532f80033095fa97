// SPDX-License-Identifier: Apache-2.0
// FPDUs written down a second time, byte by byte, so that what the codec says is compared with something that
// shares no line with it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "provider/soft/wire/fault.h"

namespace nd::fuzz {

// The CRC32c of RFC 3720, one byte at a time.
std::uint32_t PlainCrc32c(std::span<const std::uint8_t> bytes);

// Gives every whole FPDU of a stream the CRC that it should have.
void RepairCrcs(std::span<std::uint8_t> stream);

// One segment as the RFCs lay it out.
struct Header {
  bool tagged = false, last = false;
  unsigned opcode = 0;
  std::uint32_t stag = 0;
  std::uint64_t offset = 0;
  std::uint32_t invalidate = 0, queue = 0, msn = 0, message_offset = 0;
  std::size_t size = 0;  // Of the header.
};

// What is wrong with a segment by itself (RFC 5041 section 7.1, RFC 5040 section 7), the first that applies.
std::optional<provider::soft::wire::Fault> JudgeSegment(std::span<const std::uint8_t> ulpdu, Header* header);

}  // namespace nd::fuzz
