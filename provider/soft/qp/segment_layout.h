// SPDX-License-Identifier: Apache-2.0
// The shared segment of a same-host connection (docs/wire.md). All zeros is a fresh one.
//
// Side 0 called Connect. Each side writes its own control block and its own ring and reads the other's.
// Everything read here may have any value at any time: copy once, check the copy, use the copy.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "provider/soft/segment.h"

namespace nd::provider::soft {

inline constexpr std::uint32_t kSlots = 1024;
inline constexpr std::uint32_t kDataSize = 64 * 1024;
inline constexpr std::uint32_t kInlineSize = 32;
inline constexpr std::uint32_t kMaxChunk = 16 * 1024;  // The maximum of one record in the data area.

// A value of SideControl::armed, beside kArmed. Earlier versions know only 0 and others.
inline constexpr std::uint32_t kArmedForRecords = 2;  // Nothing waits for the end of a record of this side.
// Added to either while a thread of this side sleeps on the word `armed` itself: the other side wakes the
// word and sends no byte. Only where the other side has said that it does.
inline constexpr std::uint32_t kByWord = 0x100;

struct SideControl {
  // The number of consumed slots of the ring of the other side. Wraps at 2^32.
  alignas(64) std::atomic<std::uint32_t> consumed;
  // Not 0: this side sleeps. The other side sets it to 0 when it publishes a slot and sends one byte on the
  // socket. With any value but kArmedForRecords it does so when it has consumed slots, too.
  alignas(64) std::atomic<std::uint32_t> armed;
  // The STag through which this side accesses memory of the other side directly; 0: none.
  alignas(64) std::atomic<std::uint32_t> hazard;
  std::atomic<std::uint64_t> mark;  // This side finds it in the other process, and knows it by that.
  // Written rarely: the number of the queue pair (for windows), and the end of the connection.
  alignas(64) std::atomic<std::uint32_t> number;
  std::atomic<std::uint32_t> end_code;      // EndCode; written after end_position.
  std::atomic<std::uint32_t> end_position;  // The invalid slot in the ring of the other side.
  std::atomic<std::uint32_t> domain;  // Of the queue pair. Regions of others are not for the other side.
  // Where this side has the segment. 0: the other side must not copy to and from memory of its process.
  std::atomic<std::uint64_t> segment;
  std::atomic<std::uint32_t> denied;  // MemoryAccess that the queue pair does not give to the other side.
  std::atomic<std::uint32_t> closed;  // Not 0: the other side begins no direct access.
  // Not 0: this side announces its records in the ready page of the other side. Earlier versions never do.
  std::atomic<std::uint32_t> announces;
  // Not 0: this side makes a whole fence between what it publishes and its look at `armed` of the other side.
  // Earlier versions never say so.
  std::atomic<std::uint32_t> fences;
  // Not 0: this side wakes the word `armed` of the other side when it finds kByWord. Earlier versions never
  // say so.
  std::atomic<std::uint32_t> wakes_words;
};
static_assert(offsetof(SideControl, mark) == 136 && offsetof(SideControl, segment) == 208 &&
              offsetof(SideControl, announces) == 224 && offsetof(SideControl, fences) == 228 &&
              offsetof(SideControl, wakes_words) == 232 && sizeof(SideControl) == 256);

enum class RecordKind : std::uint8_t {
  kSend = 1,          // A piece of a Send: bytes here, or in a buffer of the sender (kByReference).
  kWrite = 2,         // A piece of a Write, independent of others.
  kReadRequest = 3,   // token, address, length: the source. place: the number of the Read.
  kReadResponse = 4,  // token: the number of the Read.
  kDescriptors = 5,   // Descriptors wait on the socket.
  kAbandonSend = 6,   // The Send whose first pieces were sent is abandoned.
  kGoodbye = 7,
  // The next three: only with kHandOffExtensions.
  kImmediate = 8,  // Behind a Write: token is its immediate data, length its length. Takes a receive.
  kFetchAdd = 9,   // token, address; place: the read's number; bytes: Operands of 8 bytes each.
  kCompareSwap = 10,
};

enum RecordFlags : std::uint8_t {
  kLastPiece = 0x1,
  kInlineBytes = 0x2,  // In the slot; else in the data area at `place`.
  kSolicited = 0x4,
  kInvalidates = 0x8,    // token: the STag to invalidate.
  kByReference = 0x10,   // address: the number of the sender's buffer, place: offset in it.
  kHasImmediate = 0x20,  // Last piece of a Send, only with kHandOffExtensions. token: the immediate data.
};

struct alignas(64) Slot {
  // 1 + the number of earlier rounds of the ring; set last, so that one cache line carries a small message.
  std::atomic<std::uint32_t> stamp;
  RecordKind kind;
  std::uint8_t flags;
  std::uint16_t reserved;
  std::uint32_t length;
  std::uint32_t token;
  std::uint64_t address;  // In the address space of the owner of the memory.
  std::uint64_t place;    // A growing position in the data area, modulo kDataSize.
  std::byte bytes[kInlineSize];
};
static_assert(sizeof(Slot) == 64);

struct Ring {
  Slot slots[kSlots];
  std::byte data[kDataSize];
};

struct Segment {
  SideControl side[2];
  alignas(4096) Ring ring[2];
};
static_assert(sizeof(Segment) == kSegmentSize && offsetof(SideControl, armed) == kArmedWords[0] &&
              sizeof(SideControl) + offsetof(SideControl, armed) == kArmedWords[1]);

constexpr std::uint32_t StampOf(std::uint32_t position) {
  return position / kSlots + 1;
}

// Datagrams on the socket: one byte is a doorbell or announces a table, this stands beside a descriptor.
inline constexpr std::byte kDoorbell{1};
// The next datagram is the table of regions, whose sender the other side asks the kernel for. Earlier
// versions send the table first of all and without this, and take this for a doorbell.
inline constexpr std::byte kTableFollows{2};
struct ShareMessage {
  static constexpr std::uint32_t kMagic = 0x4E445348;  // "NDSH"
  // A receiver ignores kinds that it does not know.
  enum Kind : std::uint32_t { kRegionTable = 1, kBuffer = 2, kReadyPage = 3 };
  std::uint32_t magic = kMagic;
  std::uint32_t kind = 0;
  std::uint32_t id = 0;  // Of the buffer; the place in the ready page.
  std::uint32_t reserved = 0;
};

}  // namespace nd::provider::soft
