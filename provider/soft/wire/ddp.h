// SPDX-License-Identifier: Apache-2.0
// DDP segment headers (RFC 5041), which say where a payload goes. Pure codecs; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "provider/soft/wire/bytes.h"
#include "provider/soft/wire/fault.h"

namespace nd::provider::soft::wire {

inline constexpr std::size_t kTaggedHeaderSize = 14;
inline constexpr std::size_t kUntaggedHeaderSize = 18;

struct DdpHeader {
  bool tagged = false;
  bool last = false;             // L: the last segment of its message.
  std::uint8_t ulp_control = 0;  // RDMAP's byte.
  // Tagged
  std::uint32_t stag = 0;
  std::uint64_t offset = 0;  // TO
  // Untagged
  std::uint32_t ulp_word = 0;  // The 32 bits that RDMAP defines: the STag to invalidate.
  std::uint32_t queue = 0;     // QN
  std::uint32_t msn = 0;
  std::uint32_t message_offset = 0;  // MO

  std::size_t size() const { return tagged ? kTaggedHeaderSize : kUntaggedHeaderSize; }
  friend bool operator==(const DdpHeader&, const DdpHeader&) = default;
};

// Reads the header at the front of a ULPDU. Faults: kLength (shorter than its header), the two version
// faults, kDdpOffsetWrap / kMessageOffset when the payload behind it would pass the end of the offset's
// range. Reserved bits are ignored.
std::optional<Fault> DecodeDdp(ByteSpan ulpdu, DdpHeader* header);

// As DecodeDdp for a ULPDU of `ulpdu_size` bytes whose first part is `bytes`.
std::optional<Fault> DecodeDdpPrefix(ByteSpan bytes, std::size_t ulpdu_size, DdpHeader* header);

// Writes header.size() bytes and returns that number. Fields of the other kind are ignored.
std::size_t EncodeDdp(const DdpHeader& header, std::byte* to);

}  // namespace nd::provider::soft::wire
