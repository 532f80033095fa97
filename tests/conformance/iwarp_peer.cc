// SPDX-License-Identifier: Apache-2.0
// Written from RFC 5040, 5041, 5044 and 6581 only.
#include "tests/conformance/iwarp_peer.h"

namespace nd::conformance {
namespace {

constexpr char kRequestKey[] = "MPA ID Req Frame";
constexpr char kReplyKey[] = "MPA ID Rep Frame";

std::uint32_t Crc32c(const std::string& bytes) {
  std::uint32_t crc = ~0U;
  for (const char c : bytes) {
    crc ^= static_cast<std::uint8_t>(c);
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0x82F63B78U : 0);
  }
  return ~crc;
}

void Put16(std::string& out, std::uint32_t value) {
  out += static_cast<char>(value >> 8);
  out += static_cast<char>(value);
}
void Put32(std::string& out, std::uint32_t value) {
  Put16(out, value >> 16);
  Put16(out, value & 0xFFFF);
}
std::uint32_t Get16(const std::string& in, std::size_t at) {
  return static_cast<std::uint32_t>(static_cast<std::uint8_t>(in[at]) << 8 |
                                    static_cast<std::uint8_t>(in[at + 1]));
}

}  // namespace

IwarpPeer IwarpPeer::Dial(const Address& to) {
  IwarpPeer peer;
  peer.fd_ = ConnectedTo(to);
  return peer;
}

IwarpPeer IwarpPeer::AcceptFrom(const UniqueFd& listener) {
  IwarpPeer peer;
  peer.fd_ = AcceptedBy(listener);
  return peer;
}

bool IwarpPeer::SendMpa(bool reply, std::uint8_t flags, std::uint8_t revision,
                        const std::string& private_data, std::uint16_t ird, std::uint16_t ord) {
  std::string frame(reply ? kReplyKey : kRequestKey, 16);
  frame += static_cast<char>(flags | (revision == 2 ? 0x10 : 0));
  frame += static_cast<char>(revision);
  std::string data;
  if (revision == 2) {
    Put16(data, ird);
    Put16(data, ord);
  }
  data += private_data;
  Put16(frame, static_cast<std::uint32_t>(data.size()));
  return SendRaw(frame + data);
}

bool IwarpPeer::ReadExactly(void* to, std::size_t size) const {
  return ReceiveUntil(fd_, to, size) == static_cast<std::ptrdiff_t>(size);
}

std::optional<MpaFrame> IwarpPeer::ReceiveMpa() {
  std::string header(20, '\0');
  if (!ReadExactly(header.data(), header.size())) return std::nullopt;
  MpaFrame frame;
  frame.reply = header.compare(0, 16, kReplyKey) == 0;
  if (!frame.reply && header.compare(0, 16, kRequestKey) != 0) return std::nullopt;
  frame.flags = static_cast<std::uint8_t>(header[16]);
  frame.revision = static_cast<std::uint8_t>(header[17]);
  frame.private_data.resize(Get16(header, 18));
  if (!ReadExactly(frame.private_data.data(), frame.private_data.size())) return std::nullopt;
  if ((frame.flags & 0x10) != 0) {
    if (frame.private_data.size() < 4) return std::nullopt;
    frame.ird = static_cast<std::uint16_t>(Get16(frame.private_data, 0));
    frame.ord = static_cast<std::uint16_t>(Get16(frame.private_data, 2));
    frame.private_data.erase(0, 4);
  }
  return frame;
}

bool IwarpPeer::SendMessage(const std::string& payload) {
  std::string fpdu;
  Put16(fpdu, static_cast<std::uint32_t>(18 + payload.size()));
  fpdu += '\x41';  // DDP: untagged, last, version 1.
  fpdu += '\x43';  // RDMAP: version 1, Send.
  Put32(fpdu, 0);
  Put32(fpdu, 0);  // Queue 0.
  Put32(fpdu, msn_++);
  Put32(fpdu, 0);  // Offset 0.
  fpdu += payload;
  while (fpdu.size() % 4 != 0) fpdu += '\0';
  const std::uint32_t crc = Crc32c(fpdu);
  for (int i = 0; i < 4; ++i) fpdu += static_cast<char>(crc >> (8 * i));
  return SendRaw(fpdu);
}

std::optional<std::string> IwarpPeer::ReceiveMessage() {
  for (;;) {
    std::string fpdu(2, '\0');
    if (!ReadExactly(fpdu.data(), 2)) return std::nullopt;
    const std::size_t ulpdu = Get16(fpdu, 0);
    const std::size_t padded = (2 + ulpdu + 3) / 4 * 4;
    fpdu.resize(padded + 4);
    if (!ReadExactly(fpdu.data() + 2, fpdu.size() - 2)) return std::nullopt;
    std::uint32_t crc = 0;
    for (std::size_t i = 0; i < 4; ++i)
      crc |= std::uint32_t{static_cast<std::uint8_t>(fpdu[padded + i])} << (8 * i);
    if (crc != Crc32c(fpdu.substr(0, padded))) return std::nullopt;
    const bool tagged = (static_cast<std::uint8_t>(fpdu[2]) & 0x80) != 0;
    const int opcode = static_cast<std::uint8_t>(fpdu[3]) & 0x0F;
    if (!tagged && opcode == 3) return fpdu.substr(20, ulpdu - 18);
    if (!tagged && opcode == 7) return std::nullopt;  // Terminate
  }
}

bool IwarpPeer::ClosedByPeer() {
  char byte;
  return ReceiveUntil(fd_, &byte, 1) == 0;
}

}  // namespace nd::conformance
