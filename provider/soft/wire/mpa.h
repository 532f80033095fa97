// SPDX-License-Identifier: Apache-2.0
// MPA: the start-up frames of RFC 5044 and RFC 6581, and the framing of the data that follows (FPDUs).
//
// Markers are never used (docs/wire.md). Decoding neither allocates nor copies; spans in the results point
// into the caller's bytes. Any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "provider/soft/wire/bytes.h"

namespace nd::provider::soft::wire {

inline constexpr std::size_t kMpaHeaderSize = 20;       // Key 16, flags 1, revision 1, length 2.
inline constexpr std::size_t kMaxMpaPrivateData = 512;  // RFC 5044; includes the enhanced words.
inline constexpr std::size_t kEnhancedWordsSize = 4;
inline constexpr std::size_t kMaxMpaFrame = kMpaHeaderSize + kMaxMpaPrivateData;
inline constexpr std::uint16_t kMaxMpaReadLimit = 16382;  // 14 bits; the top value means "not negotiated".
inline constexpr std::uint16_t kMpaReadLimitUnknown = 16383;

enum class MpaKind : std::uint8_t { kRequest, kReply };

// The IRD and ORD words of RFC 6581 with their control bits.
struct EnhancedWords {
  bool peer_to_peer = false;  // A: the initiator's first frame is a ready-to-receive (RTR) frame.
  bool rtr_send = false;      // B: ... which may be a zero-length Send,
  bool rtr_write = false;     // C: ... a zero-length RDMA Write,
  bool rtr_read = false;      // D: ... a zero-length RDMA Read.
  std::uint16_t ird = 0;      // 14 bits each.
  std::uint16_t ord = 0;
  friend bool operator==(const EnhancedWords&, const EnhancedWords&) = default;
};

struct MpaFrame {
  MpaKind kind = MpaKind::kRequest;
  bool markers = false;   // M
  bool crc = false;       // C
  bool rejected = false;  // R, replies only; ignored in a request (RFC 5044 7.1.1).
  bool enhanced = false;  // S, revision 2 only; otherwise a reserved bit that is ignored.
  std::uint8_t revision = 2;
  EnhancedWords words;    // When enhanced.
  ByteSpan private_data;  // Without the words.
};

enum class MpaFault : std::uint8_t {
  kNone = 0,
  kBadKey,              // Not MPA, or the other kind of frame.
  kBadRevision,         // Neither 1 nor 2.
  kPrivateDataTooLong,  // Announces more than 512 bytes.
  kEnhancedTooShort,    // Enhanced, but too short for the words.
};
std::string_view Name(MpaFault fault);

enum class Verdict : std::uint8_t { kNeedMore, kComplete, kBad };

struct MpaDecoded {
  Verdict verdict = Verdict::kNeedMore;
  // kNeedMore: the frame has at least this many more bytes. Reading that many never reads beyond the frame.
  // kComplete: 0.
  std::size_t need = 0;
  std::size_t size = 0;  // kComplete: length of the frame; bytes behind it are ignored.
  MpaFault fault = MpaFault::kNone;
  MpaFrame frame;  // kComplete.
};

// Decodes all bytes received so far. Returns kBad at the first wrong byte.
MpaDecoded DecodeMpa(MpaKind kind, ByteSpan bytes);

std::size_t MpaFrameSize(const MpaFrame& frame);
// Writes the frame to the front of `to`, returns its size. `enhanced` always writes the words. CHECKs that
// it fits, that revision is 1 or 2, enhanced only with 2, and private data and words are within 512 bytes.
std::size_t EncodeMpa(const MpaFrame& frame, MutableByteSpan to);

// ---- FPDU: length (2, of the ULPDU) | ULPDU | pad to a multiple of 4 | CRC32c (4, little-endian)

inline constexpr std::size_t kFpduHeaderSize = 2;
inline constexpr std::size_t kFpduCrcSize = 4;
inline constexpr std::size_t kMaxUlpdu = 65535;

constexpr std::size_t FpduPad(std::size_t ulpdu) {
  return (4 - (kFpduHeaderSize + ulpdu) % 4) % 4;
}
constexpr std::size_t FpduSize(std::size_t ulpdu) {
  return kFpduHeaderSize + ulpdu + FpduPad(ulpdu) + kFpduCrcSize;
}
inline constexpr std::size_t kMaxFpdu = FpduSize(kMaxUlpdu);

// The largest ULPDU whose FPDU fits `segment_size` bytes (a TCP MSS, or a multiple of it), at most
// kMaxUlpdu; 0 when nothing fits.
constexpr std::size_t MaxUlpduFor(std::size_t segment_size) {
  if (segment_size < FpduSize(0)) return 0;
  const std::size_t whole = segment_size / 4 * 4 - kFpduHeaderSize - kFpduCrcSize;
  return whole < kMaxUlpdu ? whole : kMaxUlpdu;
}

struct FpduDecoded {
  Verdict verdict = Verdict::kNeedMore;
  std::size_t need = 0;  // As MpaDecoded.
  std::size_t size = 0;  // Of the whole FPDU; known (not 0) from two bytes on.
  bool crc_ok = false;   // kComplete; true when CRC is off.
  ByteSpan ulpdu;        // kComplete.
};

// Never kBad: any length is legal, and the caller judges a CRC mismatch (`crc_ok`).
FpduDecoded DecodeFpdu(ByteSpan bytes, bool crc);

// The ULPDU is already in place at frame[2 .. 2 + ulpdu): writes length, pad and CRC (0 when off), returns
// FpduSize(ulpdu). CHECKs that `frame` has that size.
std::size_t SealFpdu(MutableByteSpan frame, std::size_t ulpdu, bool crc);

// For gather sending: the bytes before and behind a ULPDU that lies in pieces elsewhere. The CRC covers
// length, ULPDU and pad, so start with ExtendCrc32c(Crc32c(length bytes), piece)...
struct FpduTrailer {
  std::byte bytes[3 + kFpduCrcSize];
  std::size_t size = 0;
};
FpduTrailer MakeFpduTrailer(std::size_t ulpdu, std::uint32_t crc_so_far, bool crc);

}  // namespace nd::provider::soft::wire
