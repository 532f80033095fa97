// SPDX-License-Identifier: Apache-2.0
// The 12 bytes in front of the MPA private data that name the ND ports in separate mode (docs/wire.md).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "nd/status.h"
#include "provider/soft/wire/bytes.h"

namespace nd::provider::soft::wire {

inline constexpr std::size_t kNdbHeaderSize = 12;
inline constexpr std::uint8_t kNdbVersion = 1;

enum NdbFlags : std::uint16_t {
  kNdbConfirmationReads = 0x1,  // Answers zero-length Read Requests in delivery order.
  kNdbExtensions = 0x2,         // The sender's application knows the opcodes of wire::IsExtension().
};

struct NdbHeader {
  Detail reason = Detail::kNone;  // Rejecting replies; kNone elsewhere.
  std::uint16_t flags = 0;        // Unknown bits are kept and ignored.
  std::uint16_t source_port = 0;  // ND ports as the sender of this frame sees them.
  std::uint16_t destination_port = 0;
  friend bool operator==(const NdbHeader&, const NdbHeader&) = default;
};

// Returns no value when the private data does not begin with a header of version 1; the peer is then another
// implementation. An unknown reason becomes kPeerRejected, because a newer peer may send new reasons.
std::optional<NdbHeader> DecodeNdbHeader(ByteSpan private_data);

// Writes kNdbHeaderSize bytes.
void EncodeNdbHeader(const NdbHeader& header, std::byte* to);

}  // namespace nd::provider::soft::wire
