// SPDX-License-Identifier: Apache-2.0
// One table holds the rules of every opcode; decoding and encoding both use it.
#include "provider/soft/wire/rdmap.h"

#include <limits>

#include "provider/soft/wire/check.h"
#include "provider/soft/wire/mpa.h"

namespace nd::provider::soft::wire {
namespace {

constexpr std::uint8_t kVersionMask = 0xC0, kVersion = 0x40, kOpcodeMask = 0x0F;
constexpr std::size_t kAnyTagged = kMaxUlpdu - kTaggedHeaderSize;
constexpr std::size_t kAnyUntagged = kMaxUlpdu - kUntaggedHeaderSize;

constexpr OpcodeRule kRules[kOpcodeCount] = {
    {"RDMA Write", true, 0, 0, kAnyTagged, false},
    {"RDMA Read Request", false, kReadRequestQueue, kReadRequestSize, kReadRequestSize, true},
    {"RDMA Read Response", true, 0, 0, kAnyTagged, false},
    {"Send", false, kSendQueue, 0, kAnyUntagged, false},
    {"Send with Invalidate", false, kSendQueue, 0, kAnyUntagged, false},
    {"Send with Solicited Event", false, kSendQueue, 0, kAnyUntagged, false},
    {"Send with Solicited Event and Invalidate", false, kSendQueue, 0, kAnyUntagged, false},
    {"Terminate", false, kTerminateQueue, 4, kAnyUntagged, true},
};

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
  return opcode < kOpcodeCount ? &kRules[opcode] : nullptr;
}

std::optional<Fault> DecodeSegmentHeader(ByteSpan bytes, std::size_t ulpdu_size, Segment* segment,
                                         std::size_t* header_size) {
  DdpHeader header;
  const std::optional<Fault> ddp_fault = DecodeDdpPrefix(bytes, ulpdu_size, &header);
  segment->opcode = static_cast<Opcode>(header.ulp_control & 0x07);
  segment->last = header.last;
  segment->stag = header.stag;
  segment->offset = header.offset;
  segment->invalidate_stag = header.ulp_word;
  segment->msn = header.msn;
  segment->message_offset = header.message_offset;
  segment->payload = {};
  *header_size = header.size();
  if (ddp_fault) return ddp_fault;
  if ((header.ulp_control & kVersionMask) != kVersion) return fault::kRdmapVersion;
  const OpcodeRule* rule = RuleOf(header.ulp_control & kOpcodeMask);
  if (rule == nullptr) return fault::kUnexpectedOpcode;
  return Judge(*rule, header, ulpdu_size - header.size());
}

std::optional<Fault> DecodeSegment(ByteSpan ulpdu, Segment* segment) {
  std::size_t header_size = 0;
  const std::optional<Fault> found = DecodeSegmentHeader(ulpdu, ulpdu.size(), segment, &header_size);
  if (!found) segment->payload = ulpdu.subspan(header_size);
  return found;
}

std::size_t EncodeSegmentHeader(const Segment& segment, std::byte* to) {
  const auto raw = static_cast<std::uint8_t>(segment.opcode);
  Check(raw < kOpcodeCount, "only known opcodes are sent");
  const OpcodeRule& rule = kRules[raw];
  DdpHeader header;
  header.tagged = rule.tagged;
  header.last = segment.last;
  header.ulp_control = static_cast<std::uint8_t>(kVersion | raw);
  header.stag = segment.stag;
  header.offset = segment.offset;
  header.ulp_word = Invalidates(segment.opcode) ? segment.invalidate_stag : 0;
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

}  // namespace nd::provider::soft::wire
