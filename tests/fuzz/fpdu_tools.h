// SPDX-License-Identifier: Apache-2.0
// A second implementation of FPDUs, byte by byte, for comparison with the codec; the two share no code.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "provider/soft/wire/fault.h"

namespace nd::fuzz {

// Computes the CRC32c of RFC 3720, one byte at a time.
std::uint32_t PlainCrc32c(std::span<const std::uint8_t> bytes);

// Writes the correct CRC into every whole FPDU of a stream.
void RepairCrcs(std::span<std::uint8_t> stream);

// The header of one segment according to the RFCs.
struct Header {
  bool tagged = false, last = false;
  unsigned opcode = 0;
  std::uint32_t stag = 0;
  std::uint64_t offset = 0;
  std::uint32_t invalidate = 0, queue = 0, msn = 0, message_offset = 0;
  std::size_t size = 0;  // The size of the header.
};

// Returns the first applicable fault of a segment by itself (RFC 5041 section 7.1, RFC 5040 section 7).
std::optional<provider::soft::wire::Fault> JudgeSegment(std::span<const std::uint8_t> ulpdu, Header* header);

}  // namespace nd::fuzz
