// SPDX-License-Identifier: Apache-2.0
// The reference for start-up frames, written from the documentation and not from the codec.
#include "tests/fuzz/handshake_tools.h"

#include <cstring>

#include "tests/fuzz/fpdu_tools.h"

namespace nd::fuzz {

StartFrame ReadStartFrame(bool reply, Stream bytes) {
  const char* key = reply ? "MPA ID Rep Frame" : "MPA ID Req Frame";
  StartFrame frame;
  const auto bad = [&] {
    frame.verdict = StartFrame::Verdict::kBad;
    return frame;
  };
  for (std::size_t i = 0; i < 16 && i < bytes.size(); ++i) {
    if (bytes[i] != static_cast<std::uint8_t>(key[i])) return bad();
  }
  if (bytes.size() >= 18 && bytes[17] != 1 && bytes[17] != 2) return bad();
  if (bytes.size() >= 19 && bytes[18] > 2) return bad();  // 512 is 0x0200.
  if (bytes.size() < 20) return frame;
  frame.flags = bytes[16];
  frame.revision = bytes[17];
  const std::size_t length = bytes[18] * 256u + bytes[19];
  frame.markers = (frame.flags & 0x80) != 0;
  frame.crc = (frame.flags & 0x40) != 0;
  frame.rejected = reply && (frame.flags & 0x20) != 0;
  frame.enhanced = frame.revision == 2 && (frame.flags & 0x10) != 0;
  if (length > 512 || (frame.enhanced && length < 4)) return bad();
  if (bytes.size() < 20 + length) return frame;
  frame.verdict = StartFrame::Verdict::kWhole;
  frame.size = 20 + length;
  frame.data = bytes.subspan(20, length);
  if (frame.enhanced) {
    frame.first = frame.data[0] * 256u + frame.data[1];
    frame.second = frame.data[2] * 256u + frame.data[3];
    frame.data = frame.data.subspan(4);
  }
  return frame;
}

std::optional<PortsHeader> ReadPortsHeader(Stream data) {
  if (data.size() < 12 || std::memcmp(data.data(), "NDB1\x01", 5) != 0) return std::nullopt;
  return PortsHeader{data[5], data[6] * 256u + data[7], data[8] * 256u + data[9], data[10] * 256u + data[11]};
}

void CheckFpdus(Stream sent, bool crc) {
  while (!sent.empty()) {
    Require(sent.size() >= 2, "a frame has a length");
    const std::size_t ulpdu = sent[0] * 256u + sent[1];
    const std::size_t covered = (2 + ulpdu + 3) / 4 * 4;
    Require(sent.size() >= covered + 4, "a frame is sent whole");
    const std::uint32_t want = crc ? PlainCrc32c(sent.first(covered)) : 0;
    for (unsigned i = 0; i < 4; ++i) {
      Require(sent[covered + i] == ((want >> (8 * i)) & 0xFF), "a frame is sent with the agreed CRC");
    }
    Header header;
    Require(!JudgeSegment(sent.subspan(2, ulpdu), &header), "a frame is sent well-formed");
    sent = sent.subspan(covered + 4);
  }
}

ReadLimits PickLimits(std::uint8_t bits) {
  constexpr std::uint32_t kLimits[] = {0, 1, 16, 128, 16382, 16383, 70000, 0xFFFFFFFF};
  return {kLimits[bits & 7], kLimits[(bits >> 3) & 7]};
}

provider::Bytes PickData(std::uint8_t length, std::size_t most) {
  provider::Bytes data(std::min<std::size_t>(length, most));
  for (std::size_t i = 0; i < data.size(); ++i) data[i] = static_cast<std::uint8_t>('a' + i % 26);
  return data;
}

void RepairBehindStartFrame(std::span<std::uint8_t> stream) {
  if (stream.size() < 20) return;
  const std::size_t size = 20 + stream[18] * 256u + stream[19];
  if (stream.size() > size) RepairCrcs(stream.subspan(size));
}

}  // namespace nd::fuzz
