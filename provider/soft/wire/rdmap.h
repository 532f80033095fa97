// SPDX-License-Identifier: Apache-2.0
// RDMAP messages (RFC 5040) on top of DDP segments: opcodes, which header each must have, Read Requests.
//
// Pure codecs without state; order, MSNs, STags and limits are judged by the queue pair. Any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "provider/soft/wire/bytes.h"
#include "provider/soft/wire/ddp.h"
#include "provider/soft/wire/fault.h"

namespace nd::provider::soft::wire {

enum class Opcode : std::uint8_t {
  kWrite = 0,
  kReadRequest = 1,
  kReadResponse = 2,
  kSend = 3,
  kSendInvalidate = 4,
  kSendSolicited = 5,
  kSendSolicitedInvalidate = 6,
  kTerminate = 7,
};
inline constexpr std::size_t kOpcodeCount = 8;

inline constexpr std::uint32_t kSendQueue = 0, kReadRequestQueue = 1, kTerminateQueue = 2;
inline constexpr std::size_t kReadRequestSize = 28;  // Behind the untagged header.
inline constexpr std::size_t kMaxSegmentHeader = kUntaggedHeaderSize;

struct OpcodeRule {
  std::string_view name;  // "Send with Invalidate"
  bool tagged = false;
  std::uint32_t queue = 0;      // Untagged.
  std::size_t min_payload = 0;  // Of a segment, without the DDP header.
  std::size_t max_payload = 0;
  bool one_segment = false;  // L must be set and MO be 0.
};
// Returns null for an unknown opcode.
const OpcodeRule* RuleOf(std::uint8_t opcode);
inline const OpcodeRule& RuleOf(Opcode opcode) {
  return *RuleOf(static_cast<std::uint8_t>(opcode));
}
inline std::size_t HeaderSize(Opcode opcode) {
  return RuleOf(opcode).tagged ? kTaggedHeaderSize : kUntaggedHeaderSize;
}
inline bool IsSend(Opcode o) {
  return o >= Opcode::kSend && o <= Opcode::kSendSolicitedInvalidate;
}
inline bool Invalidates(Opcode o) {
  return o == Opcode::kSendInvalidate || o == Opcode::kSendSolicitedInvalidate;
}
inline bool IsSolicited(Opcode o) {
  return o == Opcode::kSendSolicited || o == Opcode::kSendSolicitedInvalidate;
}

// One DDP segment of an RDMAP message.
struct Segment {
  Opcode opcode = Opcode::kSend;
  bool last = true;
  // Write, Read Response
  std::uint32_t stag = 0;
  std::uint64_t offset = 0;
  // The others; `queue` follows from the opcode.
  std::uint32_t invalidate_stag = 0;
  std::uint32_t msn = 0;
  std::uint32_t message_offset = 0;
  ByteSpan payload;  // Decode only: everything behind the DDP header.
};

// Decodes and checks one ULPDU. On a Fault, `segment` holds the fields that could be read, for logs. Faults:
// those of DecodeDdp, kRdmapVersion, kUnexpectedOpcode, kInvalidQueue, kMessageTooLong, kMessageOffset,
// kOperationUnspecified.
std::optional<Fault> DecodeSegment(ByteSpan ulpdu, Segment* segment);

// As DecodeSegment, from the header alone, for receivers that place payload before all of it has arrived:
// `header` has at least min(ulpdu_size, kMaxSegmentHeader) bytes of a ULPDU of `ulpdu_size` bytes; `payload`
// stays empty and
// `*header_size` tells where it begins.
std::optional<Fault> DecodeSegmentHeader(ByteSpan header, std::size_t ulpdu_size, Segment* segment,
                                         std::size_t* header_size);

// Writes the DDP header of the segment (HeaderSize(opcode) bytes) and returns its size; `to` has at least
// kMaxSegmentHeader bytes.
std::size_t EncodeSegmentHeader(const Segment& segment, std::byte* to);

struct ReadRequest {
  std::uint32_t sink_stag = 0;
  std::uint64_t sink_offset = 0;
  std::uint32_t size = 0;
  std::uint32_t source_stag = 0;
  std::uint64_t source_offset = 0;
  friend bool operator==(const ReadRequest&, const ReadRequest&) = default;
};
// `payload` of a decoded kReadRequest segment (exactly kReadRequestSize bytes).
ReadRequest DecodeReadRequest(ByteSpan payload);
void EncodeReadRequest(const ReadRequest& request, std::byte* to);

}  // namespace nd::provider::soft::wire
