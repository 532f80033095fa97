// SPDX-License-Identifier: Apache-2.0
// RDMAP messages (RFC 5040, RFC 7306) on top of DDP segments: opcodes, which header each must have, Read
// Requests, atomic operations.
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
  // RFC 7306.
  kImmediate = 8,
  kImmediateSolicited = 9,
  kAtomicRequest = 10,
  kAtomicResponse = 11,
  // Not in any RFC; the word of RDMAP is their immediate data.
  kSendImmediate = 12,
  kSendSolicitedImmediate = 13,
};
// Those of RFC 5040, and with the extensions, which only ndbrokers that agreed on them send (kNdbExtensions).
inline constexpr std::size_t kOpcodeCount = 8, kExtendedOpcodeCount = 14;

inline constexpr std::uint32_t kSendQueue = 0, kReadRequestQueue = 1, kTerminateQueue = 2,
                               kAtomicResponseQueue = 3;
inline constexpr std::size_t kImmediateSize = 8;
inline constexpr std::size_t kAtomicRequestSize = 52;
inline constexpr std::size_t kAtomicResponseSize = 12;
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
  return (o >= Opcode::kSend && o <= Opcode::kSendSolicitedInvalidate) || o >= Opcode::kSendImmediate;
}
inline bool CarriesImmediate(Opcode o) {
  return o == Opcode::kSendImmediate || o == Opcode::kSendSolicitedImmediate;
}
inline bool Invalidates(Opcode o) {
  return o == Opcode::kSendInvalidate || o == Opcode::kSendSolicitedInvalidate;
}
inline bool IsSolicited(Opcode o) {
  return o == Opcode::kSendSolicited || o == Opcode::kSendSolicitedInvalidate ||
         o == Opcode::kImmediateSolicited || o == Opcode::kSendSolicitedImmediate;
}

// One DDP segment of an RDMAP message.
struct Segment {
  Opcode opcode = Opcode::kSend;
  bool last = true;
  // Write, Read Response
  std::uint32_t stag = 0;
  std::uint64_t offset = 0;
  // The others; `queue` follows from the opcode.
  std::uint32_t invalidate_stag = 0;  // Or the immediate data, of a Send that carries it.
  std::uint32_t msn = 0;
  std::uint32_t message_offset = 0;
  ByteSpan payload;  // Decode only: everything behind the DDP header.
};

// Decodes and checks one ULPDU. On a Fault, `segment` holds the fields that could be read, for logs. Faults:
// those of DecodeDdp, kRdmapVersion, kUnexpectedOpcode, kInvalidQueue, kMessageTooLong, kMessageOffset,
// kOperationUnspecified. Without `extensions` the opcodes from kImmediate on are unknown.
std::optional<Fault> DecodeSegment(ByteSpan ulpdu, Segment* segment, bool extensions = false);

// As DecodeSegment, from the header alone, for receivers that place payload before all of it has arrived:
// `header` has at least min(ulpdu_size, kMaxSegmentHeader) bytes of a ULPDU of `ulpdu_size` bytes; `payload`
// stays empty and
// `*header_size` tells where it begins.
std::optional<Fault> DecodeSegmentHeader(ByteSpan header, std::size_t ulpdu_size, Segment* segment,
                                         std::size_t* header_size, bool extensions = false);

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

// The payload of kImmediate and kImmediateSolicited, which follow a Write.
struct Immediate {
  std::uint32_t data = 0;
  std::uint32_t length = 0;  // Of the Write.
  friend bool operator==(const Immediate&, const Immediate&) = default;
};
Immediate DecodeImmediate(ByteSpan payload);
void EncodeImmediate(const Immediate& immediate, std::byte* to);

// FetchAdd on all 64 bits as one number; CompareSwap with every bit of both masks. Others are not offered.
struct AtomicRequest {
  bool compares = false;
  std::uint32_t id = 0;
  std::uint32_t stag = 0;
  std::uint64_t offset = 0;
  std::uint64_t value = 0;    // To add, or to swap in.
  std::uint64_t compare = 0;  // Of CompareSwap, else 0.
  friend bool operator==(const AtomicRequest&, const AtomicRequest&) = default;
};
// `payload` of a decoded kAtomicRequest segment. No value: another operation, or other masks.
std::optional<AtomicRequest> DecodeAtomicRequest(ByteSpan payload);
void EncodeAtomicRequest(const AtomicRequest& request, std::byte* to);

struct AtomicResponse {
  std::uint32_t id = 0;
  std::uint64_t before = 0;
  friend bool operator==(const AtomicResponse&, const AtomicResponse&) = default;
};
AtomicResponse DecodeAtomicResponse(ByteSpan payload);
void EncodeAtomicResponse(const AtomicResponse& response, std::byte* to);

}  // namespace nd::provider::soft::wire
