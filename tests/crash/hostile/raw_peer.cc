// SPDX-License-Identifier: Apache-2.0
#include "tests/crash/hostile/raw_peer.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <cstring>
#include <span>

#include "provider/soft/wire/ndb_header.h"
#include "tests/crash/hostile/attack.h"

namespace nd::hostile {
namespace {

sockaddr_in Loopback(std::uint32_t low, std::uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(0x7f000000u | low);
  return address;
}

Bytes StartFrame(wire::MpaFrame frame, std::uint16_t from, std::uint16_t to, const std::string& data) {
  Bytes content(wire::kNdbHeaderSize + data.size());
  wire::NdbHeader header;
  header.source_port = from;
  header.destination_port = to;
  wire::EncodeNdbHeader(header, content.data());
  if (!data.empty()) std::memcpy(content.data() + wire::kNdbHeaderSize, data.data(), data.size());
  frame.crc = true;
  frame.enhanced = true;
  frame.words.ird = frame.words.ord = 4;
  frame.words.peer_to_peer = frame.words.rtr_write = true;
  frame.private_data = content;
  Bytes bytes(wire::MpaFrameSize(frame));
  wire::EncodeMpa(frame, bytes);
  return bytes;
}

// The whole start-up frame of the other side; empty when the stream ends first.
Bytes ReceiveStart(int fd, wire::MpaKind kind) {
  Bytes bytes;
  for (;;) {
    const wire::MpaDecoded decoded = wire::DecodeMpa(kind, bytes);
    if (decoded.verdict == wire::Verdict::kComplete) return bytes;
    if (decoded.verdict == wire::Verdict::kBad) return {};
    const std::size_t had = bytes.size();
    bytes.resize(had + decoded.need);
    if (!ReceiveAll(fd, bytes.data() + had, decoded.need)) return {};
  }
}

}  // namespace

bool SendAll(int fd, const Bytes& bytes) {
  for (std::size_t sent = 0; sent < bytes.size();) {
    const ssize_t n = ::send(fd, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
    if (n <= 0) return false;
    sent += static_cast<std::size_t>(n);
  }
  return true;
}

bool ReceiveAll(int fd, std::byte* to, std::size_t size) {
  const timeval patience{10, 0};
  ::setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  for (std::size_t got = 0; got < size;) {
    const ssize_t n = ::recv(fd, to + got, size - got, 0);
    if (n <= 0) return false;
    got += static_cast<std::size_t>(n);
  }
  return true;
}

UniqueFd ListenOnWire(int host) {
  UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int one = 1;
  ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
  const sockaddr_in address = Loopback(static_cast<std::uint32_t>(host), kWirePort);
  if (::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
      ::listen(fd.get(), 64) != 0) {
    fd.reset();
  }
  return fd;
}

UniqueFd TakeOnWire(int listening) {
  const timeval patience{10, 0};
  ::setsockopt(listening, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  UniqueFd fd(::accept4(listening, nullptr, nullptr, SOCK_CLOEXEC));
  if (!fd || ReceiveStart(fd.get(), wire::MpaKind::kRequest).empty()) return {};
  return fd;
}

UniqueFd AnswerOnWire(int listening) {
  UniqueFd fd = TakeOnWire(listening);
  if (!fd || !SendAll(fd.get(), ReplyFrame())) return {};
  return fd;
}

Bytes ReplyFrame() {
  wire::MpaFrame reply;
  reply.kind = wire::MpaKind::kReply;
  return StartFrame(reply, 9000, 50000, {});
}

UniqueFd DialWire(int host, std::uint32_t source) {
  UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (source != 0) {
    const sockaddr_in from = Loopback(source, 0);
    ::bind(fd.get(), reinterpret_cast<const sockaddr*>(&from), sizeof from);
  }
  const sockaddr_in to = Loopback(static_cast<std::uint32_t>(host), kWirePort);
  if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&to), sizeof to) != 0) fd.reset();
  const int one = 1;
  if (fd) ::setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  return fd;
}

Bytes RequestFrame(std::uint16_t nd_port, const std::string& private_data) {
  static std::uint16_t source = 49'152;
  source = source == 65'535 ? 49'152 : static_cast<std::uint16_t>(source + 1);
  return StartFrame({}, source, nd_port, private_data);
}

Established Establish(int host, bool confirm) {
  Established out;
  UniqueFd fd = DialWire(host);
  if (!fd || !SendAll(fd.get(), RequestFrame(kVictimPort))) return out;
  const Bytes reply = ReceiveStart(fd.get(), wire::MpaKind::kReply);
  const wire::MpaDecoded decoded = wire::DecodeMpa(wire::MpaKind::kReply, reply);
  if (decoded.verdict != wire::Verdict::kComplete || decoded.frame.rejected) return out;
  const wire::ByteSpan data = decoded.frame.private_data;
  if (data.size() < wire::kNdbHeaderSize + 12) return out;
  std::memcpy(&out.token, data.data() + wire::kNdbHeaderSize, 4);
  std::memcpy(&out.address, data.data() + wire::kNdbHeaderSize + 4, 8);
  if (confirm) {
    wire::Segment empty;
    empty.opcode = wire::Opcode::kWrite;
    if (!SendAll(fd.get(), Fpdu(empty, {}))) return out;
  }
  out.socket = std::move(fd);
  return out;
}

Bytes Fpdu(const Bytes& ulpdu) {
  Bytes frame(wire::FpduSize(ulpdu.size()));
  if (!ulpdu.empty()) std::memcpy(frame.data() + wire::kFpduHeaderSize, ulpdu.data(), ulpdu.size());
  wire::SealFpdu(frame, ulpdu.size(), true);
  return frame;
}

Bytes Fpdu(const wire::Segment& segment, const Bytes& payload) {
  Bytes ulpdu(wire::kMaxSegmentHeader + payload.size());
  const std::size_t header = wire::EncodeSegmentHeader(segment, ulpdu.data());
  if (!payload.empty()) std::memcpy(ulpdu.data() + header, payload.data(), payload.size());
  ulpdu.resize(header + payload.size());
  return Fpdu(ulpdu);
}

}  // namespace nd::hostile
