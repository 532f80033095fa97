// SPDX-License-Identifier: Apache-2.0
// Header lengths and offset ranges are checked here once, before anything is computed from them.
#include "provider/soft/wire/ddp.h"

#include <limits>

namespace nd::provider::soft::wire {
namespace {

constexpr std::uint8_t kTagged = 0x80, kLast = 0x40, kDdpVersionMask = 0x03, kDdpVersion = 0x01;

}  // namespace

std::optional<Fault> DecodeDdpPrefix(ByteSpan bytes, std::size_t ulpdu_size, DdpHeader* header) {
  if (ulpdu_size < 2 || bytes.size() < 2) return fault::kLength;
  const std::uint8_t control = ToInt(bytes[0]);
  header->tagged = (control & kTagged) != 0;
  header->last = (control & kLast) != 0;
  header->ulp_control = ToInt(bytes[1]);
  if ((control & kDdpVersionMask) != kDdpVersion) {
    return header->tagged ? fault::kDdpTaggedVersion : fault::kDdpUntaggedVersion;
  }
  if (ulpdu_size < header->size() || bytes.size() < header->size()) return fault::kLength;
  const std::size_t payload = ulpdu_size - header->size();
  if (header->tagged) {
    header->stag = LoadBig<std::uint32_t>(&bytes[2]);
    header->offset = LoadBig<std::uint64_t>(&bytes[6]);
    if (payload != 0 && payload - 1 > std::numeric_limits<std::uint64_t>::max() - header->offset) {
      return fault::kDdpOffsetWrap;
    }
    return std::nullopt;
  }
  header->ulp_word = LoadBig<std::uint32_t>(&bytes[2]);
  header->queue = LoadBig<std::uint32_t>(&bytes[6]);
  header->msn = LoadBig<std::uint32_t>(&bytes[10]);
  header->message_offset = LoadBig<std::uint32_t>(&bytes[14]);
  if (payload > std::uint64_t{std::numeric_limits<std::uint32_t>::max()} - header->message_offset) {
    return fault::kMessageOffset;
  }
  return std::nullopt;
}

std::optional<Fault> DecodeDdp(ByteSpan ulpdu, DdpHeader* header) {
  return DecodeDdpPrefix(ulpdu, ulpdu.size(), header);
}

std::size_t EncodeDdp(const DdpHeader& header, std::byte* to) {
  const unsigned control = (header.tagged ? kTagged : 0u) | (header.last ? kLast : 0u) | kDdpVersion;
  to[0] = static_cast<std::byte>(control);
  to[1] = static_cast<std::byte>(header.ulp_control);
  if (header.tagged) {
    StoreBig(to + 2, header.stag);
    StoreBig(to + 6, header.offset);
  } else {
    StoreBig(to + 2, header.ulp_word);
    StoreBig(to + 6, header.queue);
    StoreBig(to + 10, header.msn);
    StoreBig(to + 14, header.message_offset);
  }
  return header.size();
}

}  // namespace nd::provider::soft::wire
