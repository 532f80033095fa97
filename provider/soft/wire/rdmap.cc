// SPDX-License-Identifier: Apache-2.0
// One table holds the rules of every opcode; decoding and encoding both use it.
#include "provider/soft/wire/rdmap.h"

#include <limits>

#include "provider/soft/wire/check.h"
#include "provider/soft/wire/mpa.h"

namespace nd::provider::soft::wire {
namespace {

constexpr std::uint8_t kRdmapVersionMask = 0xC0, kRdmapVersionOne = 0x40, kOpcodeMask = 0x0F;
constexpr std::size_t kAnyTagged = kMaxUlpdu - kTaggedHeaderSize;
constexpr std::size_t kAnyUntagged = kMaxUlpdu - kUntaggedHeaderSize;

constexpr OpcodeRule kRules[kExtendedOpcodeCount] = {
    {"RDMA Write", true, 0, 0, kAnyTagged, false},
    {"RDMA Read Request", false, kReadRequestQueue, kReadRequestSize, kReadRequestSize, true},
    {"RDMA Read Response", true, 0, 0, kAnyTagged, false},
    {"Send", false, kSendQueue, 0, kAnyUntagged, false},
    {"Send with Invalidate", false, kSendQueue, 0, kAnyUntagged, false},
    {"Send with Solicited Event", false, kSendQueue, 0, kAnyUntagged, false},
    {"Send with Solicited Event and Invalidate", false, kSendQueue, 0, kAnyUntagged, false},
    {"Terminate", false, kTerminateQueue, 4, kAnyUntagged, true},
    {"Immediate Data", false, kSendQueue, kImmediateSize, kImmediateSize, true},
    {"Immediate Data with Solicited Event", false, kSendQueue, kImmediateSize, kImmediateSize, true},
    {"Atomic Request", false, kReadRequestQueue, kAtomicRequestSize, kAtomicRequestSize, true},
    {"Atomic Response", false, kAtomicResponseQueue, kAtomicResponseSize, kAtomicResponseSize, true},
    {"Send with Immediate", false, kSendQueue, 0, kAnyUntagged, false},
    {"Send with Solicited Event and Immediate", false, kSendQueue, 0, kAnyUntagged, false},
};

constexpr std::uint32_t kFetchAddCode = 0, kCompareSwapCode = 2;
constexpr std::uint64_t kAllBits = ~std::uint64_t{0};

std::optional<Fault> Judge(const OpcodeRule& rule, const DdpHeader& header, std::size_t payload) {
  if (rule.tagged != header.tagged) return fault::kUnexpectedOpcode;
  if (!rule.tagged && rule.queue != header.queue) {
    return header.queue > kTerminateQueue ? fault::kInvalidQueue : fault::kUnexpectedOpcode;
  }
  if (payload > rule.max_payload) return fault::kMessageTooLong;
  if (rule.one_segment && header.message_offset != 0) return fault::kMessageOffset;
  if (payload < rule.min_payload || (rule.one_segment && !header.last)) return fault::kOperationUnspecified;
  return std::nullopt;
}

}  // namespace

const OpcodeRule* RuleOf(std::uint8_t opcode) {
  return opcode < kExtendedOpcodeCount ? &kRules[opcode] : nullptr;
}

std::optional<Fault> DecodeSegmentHeader(ByteSpan bytes, std::size_t ulpdu_size, Segment* segment,
                                         std::size_t* header_size, bool extensions) {
  DdpHeader header;
  const std::optional<Fault> ddp_fault = DecodeDdpPrefix(bytes, ulpdu_size, &header);
  segment->opcode = static_cast<Opcode>(header.ulp_control & kOpcodeMask);
  segment->last = header.last;
  segment->stag = header.stag;
  segment->offset = header.offset;
  segment->invalidate_stag = header.ulp_word;
  segment->msn = header.msn;
  segment->message_offset = header.message_offset;
  segment->payload = {};
  *header_size = header.size();
  if (ddp_fault) return ddp_fault;
  if ((header.ulp_control & kRdmapVersionMask) != kRdmapVersionOne) return fault::kRdmapVersion;
  const std::uint8_t opcode = header.ulp_control & kOpcodeMask;
  const OpcodeRule* rule = RuleOf(opcode);
  if (rule == nullptr || (opcode >= kOpcodeCount && !extensions)) return fault::kUnexpectedOpcode;
  return Judge(*rule, header, ulpdu_size - header.size());
}

std::optional<Fault> DecodeSegment(ByteSpan ulpdu, Segment* segment, bool extensions) {
  std::size_t header_size = 0;
  const std::optional<Fault> found =
      DecodeSegmentHeader(ulpdu, ulpdu.size(), segment, &header_size, extensions);
  if (!found) segment->payload = ulpdu.subspan(header_size);
  return found;
}

std::size_t EncodeSegmentHeader(const Segment& segment, std::byte* to) {
  const auto raw = static_cast<std::uint8_t>(segment.opcode);
  Check(raw < kExtendedOpcodeCount, "only known opcodes are sent");
  const OpcodeRule& rule = kRules[raw];
  DdpHeader header;
  header.tagged = rule.tagged;
  header.last = segment.last;
  header.ulp_control = static_cast<std::uint8_t>(kRdmapVersionOne | raw);
  header.stag = segment.stag;
  header.offset = segment.offset;
  const bool has_word = Invalidates(segment.opcode) || CarriesImmediate(segment.opcode);
  header.ulp_word = has_word ? segment.invalidate_stag : 0;
  header.queue = rule.queue;
  header.msn = segment.msn;
  header.message_offset = segment.message_offset;
  return EncodeDdp(header, to);
}

ReadRequest DecodeReadRequest(ByteSpan payload) {
  Check(payload.size() == kReadRequestSize, "a Read Request has 28 bytes");
  const std::byte* from = payload.data();
  ReadRequest request;
  request.sink_stag = LoadBig<std::uint32_t>(from);
  request.sink_offset = LoadBig<std::uint64_t>(from + 4);
  request.size = LoadBig<std::uint32_t>(from + 12);
  request.source_stag = LoadBig<std::uint32_t>(from + 16);
  request.source_offset = LoadBig<std::uint64_t>(from + 20);
  return request;
}

void EncodeReadRequest(const ReadRequest& request, std::byte* to) {
  StoreBig(to, request.sink_stag);
  StoreBig(to + 4, request.sink_offset);
  StoreBig(to + 12, request.size);
  StoreBig(to + 16, request.source_stag);
  StoreBig(to + 20, request.source_offset);
}

Immediate DecodeImmediate(ByteSpan payload) {
  Check(payload.size() == kImmediateSize, "Immediate Data has 8 bytes");
  return {LoadBig<std::uint32_t>(payload.data()), LoadBig<std::uint32_t>(payload.data() + 4)};
}

void EncodeImmediate(const Immediate& immediate, std::byte* to) {
  StoreBig(to, immediate.data);
  StoreBig(to + 4, immediate.length);
}

std::optional<AtomicRequest> DecodeAtomicRequest(ByteSpan payload) {
  Check(payload.size() == kAtomicRequestSize, "an Atomic Request has 52 bytes");
  const std::byte* from = payload.data();
  const std::uint32_t code = LoadBig<std::uint32_t>(from) & 0x0F;  // The other bits are reserved.
  if (code != kFetchAddCode && code != kCompareSwapCode) return std::nullopt;
  AtomicRequest request;
  request.compares = code == kCompareSwapCode;
  request.id = LoadBig<std::uint32_t>(from + 4);
  request.stag = LoadBig<std::uint32_t>(from + 8);
  request.offset = LoadBig<std::uint64_t>(from + 12);
  request.value = LoadBig<std::uint64_t>(from + 20);
  const auto mask = LoadBig<std::uint64_t>(from + 28);
  if (!request.compares) return mask == 0 ? std::optional(request) : std::nullopt;
  request.compare = LoadBig<std::uint64_t>(from + 36);
  const auto compare_mask = LoadBig<std::uint64_t>(from + 44);
  return mask == kAllBits && compare_mask == kAllBits ? std::optional(request) : std::nullopt;
}

void EncodeAtomicRequest(const AtomicRequest& request, std::byte* to) {
  StoreBig(to, request.compares ? kCompareSwapCode : kFetchAddCode);
  StoreBig(to + 4, request.id);
  StoreBig(to + 8, request.stag);
  StoreBig(to + 12, request.offset);
  StoreBig(to + 20, request.value);
  StoreBig(to + 28, request.compares ? kAllBits : std::uint64_t{0});
  StoreBig(to + 36, request.compares ? request.compare : std::uint64_t{0});
  StoreBig(to + 44, request.compares ? kAllBits : std::uint64_t{0});
}

AtomicResponse DecodeAtomicResponse(ByteSpan payload) {
  Check(payload.size() == kAtomicResponseSize, "an Atomic Response has 12 bytes");
  return {LoadBig<std::uint32_t>(payload.data()), LoadBig<std::uint64_t>(payload.data() + 4)};
}

void EncodeAtomicResponse(const AtomicResponse& response, std::byte* to) {
  StoreBig(to, response.id);
  StoreBig(to + 4, response.before);
}

}  // namespace nd::provider::soft::wire
