// SPDX-License-Identifier: Apache-2.0
// The input of fz_ring: a header of two bytes, then steps of eight bytes, some followed by raw bytes.
#pragma once

#include <cstdint>

namespace nd::fuzz {

// First byte of the header. Side 0 called Connect.
inline constexpr std::uint8_t kPeerIsActive = 1, kShareMemory = 2, kPatientRing = 4;
inline constexpr unsigned kRingExtensions = 0x100;  // Bit 0 of the second byte: kHandOffExtensions.
inline constexpr unsigned kRingInboundShift = 3, kRingOutboundShift = 5;  // As in rdmap_script.h.

enum class RingStep : std::uint8_t {
  kPublish,      // a: kind; b: flags; c: whose STag, see Named; de: length; f: where; g: offset / 16
  kStrayRecord,  // As kPublish, but ahead of its turn; g: how far; f: the stamp
  kControl,      // a: field of the control block, 8: of the other side; bcde: value
  kConsumed,     // The peer reports everything as consumed; a: and this much more
  kPoke,         // abc: offset in the segment; d: length of what follows
  kLook,         // Runs one round of the queue pair
  kReceive,      // ab: length; c: 32 into memory that it may not write
  kSend,         // ab: length; c: 1 inline, 2 silent, 8 with invalidate, 16 from a shared buffer,
                 // 64 with immediate
  kWrite,        // ab: length; c: as above; d: whose STag
  kRead,  // ab: length; c: 2 silent, 16 into a shared buffer, 64 an atomic operation, 128 that compares;
          // d: whose STag
  kBell,  // a: bytes of the datagram
  kDescriptor,  // a: what is sent, see Sent; b: the kind that the message says; c: buffer number; d: 1 two of
                // them
  kTableEntry,  // The peer's table: a: which entry; b: access; c: buffer; d: owner; ef: offset; g: length /
                // 16
  kWindow,      // a: 1 bind, else invalidate
  kHangUp,
  kCount,
  kDisconnect = 0x40,  // a: 1 with patience
  kFlush = 0x41,
};

enum class Named : std::uint8_t { kWritable, kReadable, kPart, kLocal, kBuffer, kOwnWindow, kNobody, kZero };
enum class Sent : std::uint8_t { kTable, kBuffer, kSmallBuffer, kUnsealed, kNoMemfd };

struct RingStepBytes {
  RingStep kind = RingStep::kPublish;
  std::uint8_t a = 0, b = 0, c = 0, d = 0, e = 0, f = 0, g = 0;
};
static_assert(sizeof(RingStepBytes) == 8);

}  // namespace nd::fuzz
