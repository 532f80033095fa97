// SPDX-License-Identifier: Apache-2.0
// DDP segments of RDMAP messages for tests that play a peer.
#pragma once

#include <cstdint>
#include <vector>

#include "provider/soft/wire/rdmap.h"

namespace nd::testing {

namespace wire = ::nd::provider::soft::wire;

inline wire::Segment Untagged(wire::Opcode opcode, std::uint32_t msn = 1, std::uint32_t offset = 0,
                              bool last = true) {
  wire::Segment segment;
  segment.opcode = opcode;
  segment.msn = msn;
  segment.message_offset = offset;
  segment.last = last;
  return segment;
}

inline wire::Segment Tagged(wire::Opcode opcode, std::uint32_t stag, std::uint64_t offset) {
  wire::Segment segment;
  segment.opcode = opcode;
  segment.stag = stag;
  segment.offset = offset;
  return segment;
}

// The payload of a Read Request for `size` bytes.
inline std::vector<std::byte> ReadOf(std::uint32_t stag, std::uint64_t from, std::uint32_t size) {
  std::vector<std::byte> payload(wire::kReadRequestSize);
  wire::ReadRequest request;
  request.size = size;
  request.source_stag = stag;
  request.source_offset = from;
  wire::EncodeReadRequest(request, payload.data());
  return payload;
}

}  // namespace nd::testing
