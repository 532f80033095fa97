// SPDX-License-Identifier: Apache-2.0
// The layout is fixed by docs/wire.md; a newer version must change the version byte.
#include "provider/soft/wire/ndb_header.h"

#include <cstring>

namespace nd::provider::soft::wire {
namespace {

constexpr char kMagic[4] = {'N', 'D', 'B', '1'};

Detail DetailOf(std::uint8_t raw) {
  return raw <= static_cast<std::uint8_t>(Detail::kStaleConnection) ? static_cast<Detail>(raw)
                                                                    : Detail::kPeerRejected;
}

}  // namespace

std::optional<NdbHeader> DecodeNdbHeader(ByteSpan private_data) {
  if (private_data.size() < kNdbHeaderSize) return std::nullopt;
  const std::byte* from = private_data.data();
  if (std::memcmp(from, kMagic, sizeof kMagic) != 0 || ToInt(from[4]) != kNdbVersion) return std::nullopt;
  NdbHeader header;
  header.reason = DetailOf(ToInt(from[5]));
  header.flags = LoadBig<std::uint16_t>(from + 6);
  header.source_port = LoadBig<std::uint16_t>(from + 8);
  header.destination_port = LoadBig<std::uint16_t>(from + 10);
  return header;
}

void EncodeNdbHeader(const NdbHeader& header, std::byte* to) {
  std::memcpy(to, kMagic, sizeof kMagic);
  to[4] = static_cast<std::byte>(kNdbVersion);
  to[5] = static_cast<std::byte>(header.reason);
  StoreBig(to + 6, header.flags);
  StoreBig(to + 8, header.source_port);
  StoreBig(to + 10, header.destination_port);
}

}  // namespace nd::provider::soft::wire
