// SPDX-License-Identifier: Apache-2.0
// The input of fz_rdmap: a header of two bytes, then steps of eight bytes, some followed by raw bytes.
#pragma once

#include <cstdint>

namespace nd::fuzz {

// First byte of the header.
inline constexpr std::uint8_t kForeignPeer = 1, kNoCrc = 2, kPatient = 4;
inline constexpr unsigned kInboundShift = 3, kOutboundShift = 5;  // Two bits each: 0, 1, 4 or 16 Reads.
inline constexpr unsigned kExtended =
    0x100;  // Bit 0 of the second byte: kHandOffExtensions, without the model.
inline constexpr std::uint8_t kBeforeAttach = 0x80;  // The first frames wait in the socket.

enum class StepKind : std::uint8_t {
  kSegment,  // a: opcode and SegmentFlags; b: memory and WhereBits; cd: delta; ef: length; g: MSN or MO delta
  kRaw,      // a: length of the ULPDU that follows; it gets a good CRC
  kBytes,    // a: length of the bytes that follow; sent unchanged
  kAnswer,   // Answers the oldest Read correctly; a: number of segments (0: one)
  kTerminate,   // a: 1 siw's layout, 2 with header; b: queue (3: tagged); c: MSN; d, e, f: layer, type, code
  kHangUp,      // a: 1 both ways
  kReceive,     // ab: length; c: 1 in two pieces, 2 into memory that it may not write
  kSend,        // ab: length; c: 1 inline, 2 silent, 4 solicited, 8 with invalidate
  kWrite,       // ab: length; c: 1 inline, 2 silent, 16 to token 0
  kRead,        // ab: length; c: 2 silent
  kBind,        // The window of this connection
  kInvalidate,  // ... ends
  kCount,
  kDisconnect = 0x20,  // a: 1 with patience
  kFlush = 0x21,
};

// Of step.a, kSegment.
inline constexpr std::uint8_t kLastSegment = 0x08, kMoreFollows = 0x10, kSpoiled = 0x20, kOddMsn = 0x40,
                              kOddOffset = 0x80;
// Of step.b, kSegment: the opcode is 8 higher.
inline constexpr std::uint8_t kHighOpcode = 0x20;
// Of step.b: whose STag.
enum class Target : std::uint8_t {
  kWritable,
  kReadable,
  kPart,
  kLocal,
  kOwnWindow,
  kOtherWindow,
  kNobody,
  kZero
};
inline constexpr std::uint8_t kFromEnd = 0x08, kSmallOffset = 0x10,
                              kNearWrap = 0x18;  // WhereBits; 0: from start.

struct Step {
  StepKind kind = StepKind::kSegment;
  std::uint8_t a = 0, b = 0, c = 0, d = 0, e = 0, f = 0, g = 0;
};
static_assert(sizeof(Step) == 8);

}  // namespace nd::fuzz
