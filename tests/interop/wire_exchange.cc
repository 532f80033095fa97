// SPDX-License-Identifier: Apache-2.0
// Sends every frame of the wire format once over a real TCP connection, to be captured. The handshakes are
// those of the broker; its codecs make the frames behind them. Prints the sent frames, one "name count" per
// line, for comparison with the capture.
#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <utility>

#include "base/unique_fd.h"
#include "provider/soft/cm/handshake.h"
#include "provider/soft/wire/mpa.h"
#include "provider/soft/wire/rdmap.h"
#include "provider/soft/wire/terminate.h"

namespace nd::provider::soft {
namespace {

std::map<std::string, int> sent;

[[noreturn]] void Die(const char* what) {
  std::perror(what);
  std::exit(1);
}

void SendAll(int fd, const Bytes& bytes) {
  if (send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(bytes.size())) Die("send");
}

struct Sockets {
  UniqueFd active, passive;
};

Sockets Dial() {
  const UniqueFd listener(socket(AF_INET, SOCK_STREAM, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  if (bind(listener.get(), generic, length) != 0 || listen(listener.get(), 1) != 0 ||
      getsockname(listener.get(), generic, &length) != 0) {
    Die("listen");
  }
  Sockets sockets;
  sockets.active.reset(socket(AF_INET, SOCK_STREAM, 0));
  if (connect(sockets.active.get(), generic, length) != 0) Die("connect");
  sockets.passive.reset(accept(listener.get(), nullptr, nullptr));
  return sockets;
}

// Passes the bytes of the socket to a handshake until it has decided.
template <typename Handshake>
HandshakeStep Await(Handshake& handshake, int fd, HandshakeStep::Event expected) {
  while (true) {
    std::array<std::byte, kHandshakePeek> buffer;
    const ssize_t got = recv(fd, buffer.data(), buffer.size(), MSG_PEEK);
    if (got <= 0) Die("recv");
    HandshakeStep step = handshake.OnInput(wire::ByteSpan(buffer).first(static_cast<std::size_t>(got)));
    if (recv(fd, buffer.data(), step.consumed, 0) != static_cast<ssize_t>(step.consumed)) Die("consume");
    if (!step.send.empty()) SendAll(fd, step.send);
    if (step.event == expected) return step;
    if (step.event != HandshakeStep::Event::kNone) {
      std::fprintf(stderr, "unexpected event: %s\n", step.status.ToString().c_str());
      std::exit(1);
    }
  }
}

using Event = HandshakeStep::Event;

void SendSegment(int fd, const wire::Segment& header, const Bytes& payload, bool crc) {
  const std::size_t head = wire::HeaderSize(header.opcode);
  Bytes frame(wire::FpduSize(head + payload.size()));
  const auto bytes = std::as_writable_bytes(std::span(frame));
  wire::EncodeSegmentHeader(header, &bytes[wire::kFpduHeaderSize]);
  if (!payload.empty()) std::memcpy(&bytes[wire::kFpduHeaderSize + head], payload.data(), payload.size());
  wire::SealFpdu(bytes, head + payload.size(), crc);
  SendAll(fd, frame);
  ++sent["opcode" + std::to_string(static_cast<int>(header.opcode))];
}

void SendTerminate(int fd, const wire::Terminate& terminate, bool crc) {
  std::array<std::byte, wire::kMaxTerminateSize> payload;
  const std::size_t size = wire::EncodeTerminate(terminate, wire::TerminateLayout::kRfc, payload);
  wire::Segment header;
  header.opcode = wire::Opcode::kTerminate;
  header.msn = 1;
  SendSegment(fd, header, handshake_internal::ToBytes(wire::ByteSpan(payload).first(size)), crc);
}

// All opcodes in both segment forms, odd lengths for every pad.
void SendEverything(int fd, int back, bool crc) {
  std::uint32_t msn = 0;
  for (const wire::Opcode opcode : {wire::Opcode::kSend, wire::Opcode::kSendInvalidate,
                                    wire::Opcode::kSendSolicited, wire::Opcode::kSendSolicitedInvalidate}) {
    wire::Segment send;
    send.opcode = opcode;
    send.msn = ++msn;
    send.invalidate_stag = 0x00C0FFEE;
    SendSegment(fd, send, Bytes(std::size_t{100} + msn, 'S'), crc);
  }
  wire::Segment part;
  part.msn = ++msn;
  part.last = false;
  SendSegment(fd, part, Bytes(1000, 'a'), crc);
  part.last = true;
  part.message_offset = 1000;
  SendSegment(fd, part, Bytes(7, 'b'), crc);
  wire::Segment write;
  write.opcode = wire::Opcode::kWrite;
  write.stag = 0x1234;
  write.offset = 0x1000;
  write.last = false;
  SendSegment(fd, write, Bytes(1401, 'W'), crc);
  write.last = true;
  write.offset += 1401;
  SendSegment(fd, write, Bytes(3, 'W'), crc);
  const wire::ReadRequest request{0x55, 0x2000, 64, 0x66, 0x3000};
  wire::Segment read;
  read.opcode = wire::Opcode::kReadRequest;
  read.msn = 1;
  Bytes payload(wire::kReadRequestSize);
  wire::EncodeReadRequest(request, std::as_writable_bytes(std::span(payload)).data());
  SendSegment(fd, read, payload, crc);
  wire::Segment response;
  response.opcode = wire::Opcode::kReadResponse;
  response.stag = request.sink_stag;
  response.offset = request.sink_offset;
  SendSegment(back, response, Bytes(request.size, 'R'), crc);
  // The confirmation read of ndbroker, and its answer.
  read.msn = 2;
  wire::EncodeReadRequest({}, std::as_writable_bytes(std::span(payload)).data());
  SendSegment(fd, read, payload, crc);
  response.stag = 0;
  response.offset = 0;
  SendSegment(back, response, {}, crc);
  // The atomic operations of RFC 7306.
  wire::Segment atomic;
  atomic.opcode = wire::Opcode::kAtomicRequest;
  wire::AtomicRequest operation{false, 0x77, 0x66, 0x3000, 5, 0};
  Bytes words(wire::kAtomicRequestSize), answer(wire::kAtomicResponseSize);
  wire::Segment before;
  before.opcode = wire::Opcode::kAtomicResponse;
  for (atomic.msn = 3; atomic.msn <= 4; ++atomic.msn) {
    wire::EncodeAtomicRequest(operation, std::as_writable_bytes(std::span(words)).data());
    SendSegment(fd, atomic, words, crc);
    wire::EncodeAtomicResponse({operation.id, 9}, std::as_writable_bytes(std::span(answer)).data());
    before.msn = atomic.msn - 2;
    SendSegment(back, before, answer, crc);
    operation.compares = true;
    operation.compare = 14;
  }
  // The other side refuses the first Read.
  read.msn = 1;
  Bytes offending(wire::kUntaggedHeaderSize + wire::kReadRequestSize);
  const auto bytes = std::as_writable_bytes(std::span(offending));
  wire::EncodeSegmentHeader(read, bytes.data());
  wire::EncodeReadRequest(request, &bytes[wire::kUntaggedHeaderSize]);
  SendTerminate(back, wire::MakeTerminate(wire::fault::kBounds, bytes), crc);
}

void EstablishNdbrokers(bool crc, bool reject_reply) {
  const Sockets sockets = Dial();
  const HandshakeConfig config{PortMode::kSeparate, crc, 128};
  ActiveHandshake active(config, 50001, 7000, {16, 16}, Bytes(33, 'c'));
  PassiveHandshake passive(config);
  SendAll(sockets.active.get(), active.Start().send);
  Await(passive, sockets.passive.get(), Event::kRequest);
  SendAll(sockets.passive.get(), passive.Accept({8, 8}, Bytes(5, 'a')).send);
  Await(active, sockets.active.get(), Event::kReply);
  ++sent["request2"], ++sent["reply2"];
  if (reject_reply) {
    SendAll(sockets.active.get(), active.Reject(Bytes(50, 'r')).send);
    ++sent["opcode3"], ++sent["opcode7"];
    Await(passive, sockets.passive.get(), Event::kLost);
    return;
  }
  SendAll(sockets.active.get(), active.Confirm().send);
  ++sent["opcode0"];
  Await(passive, sockets.passive.get(), Event::kEstablished);
  SendEverything(sockets.active.get(), sockets.passive.get(), crc);
}

void Refuse() {
  const Sockets sockets = Dial();
  const HandshakeConfig config{PortMode::kSeparate, true, 128};
  ActiveHandshake active(config, 50002, 7000, {16, 16}, {});
  PassiveHandshake passive(config);
  SendAll(sockets.active.get(), active.Start().send);
  Await(passive, sockets.passive.get(), Event::kRequest);
  SendAll(sockets.passive.get(), passive.Reject(Detail::kPeerRejected, Bytes(20, 'n')).send);
  Await(active, sockets.active.get(), Event::kRejected);
  ++sent["request2"], ++sent["reply2"], ++sent["reject"];
}

// A peer that supports only a Read as RTR frame.
void ConfirmByRead() {
  const Sockets sockets = Dial();
  PassiveHandshake passive({PortMode::kTcp, true, 128});
  wire::MpaFrame request;
  request.crc = true;
  request.enhanced = true;
  request.words = {true, false, false, true, 4, 4};
  Bytes bytes(wire::MpaFrameSize(request));
  wire::EncodeMpa(request, std::as_writable_bytes(std::span(bytes)));
  SendAll(sockets.active.get(), bytes);
  Await(passive, sockets.passive.get(), Event::kRequest);
  const Bytes reply = passive.Accept({4, 4}, {}).send;
  SendAll(sockets.passive.get(), reply);
  Bytes scrap(reply.size());
  if (recv(sockets.active.get(), scrap.data(), scrap.size(), MSG_WAITALL) <= 0) Die("recv");
  SendAll(sockets.active.get(), handshake_internal::RtrReadFrame(true));
  Await(passive, sockets.passive.get(), Event::kEstablished);
  ++sent["request2"], ++sent["reply2"], ++sent["opcode1"], ++sent["opcode2"];
}

// A peer of MPA revision 1, and one frame each way to prove that the stream works.
void BasicPeer() {
  const Sockets sockets = Dial();
  PassiveHandshake passive({PortMode::kTcp, true, 128});
  const Bytes data(12, 'p');
  wire::MpaFrame request;
  request.crc = true;
  request.revision = 1;
  request.private_data = wire::AsBytes(data);
  Bytes bytes(wire::MpaFrameSize(request));
  wire::EncodeMpa(request, std::as_writable_bytes(std::span(bytes)));
  SendAll(sockets.active.get(), bytes);
  Await(passive, sockets.passive.get(), Event::kRequest);
  SendAll(sockets.passive.get(), passive.Accept({0, 0}, data).send);
  ++sent["request1"], ++sent["reply1"];
  wire::Segment send;
  send.msn = 1;
  SendSegment(sockets.active.get(), send, Bytes(64, '1'), true);
  wire::Terminate goodbye;
  goodbye.fault = wire::fault::kNoBuffer;
  SendTerminate(sockets.passive.get(), goodbye, true);
}

void MarkTheEnd() {
  const UniqueFd fd(socket(AF_INET, SOCK_DGRAM, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(9);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const char text[] = "ndbroker-end-of-exchange";
  sendto(fd.get(), text, sizeof text, 0, reinterpret_cast<const sockaddr*>(&address), sizeof address);
}

}  // namespace
}  // namespace nd::provider::soft

int main() {
  using namespace nd::provider::soft;
  EstablishNdbrokers(/*crc=*/true, /*reject_reply=*/false);
  EstablishNdbrokers(/*crc=*/false, /*reject_reply=*/false);
  EstablishNdbrokers(/*crc=*/true, /*reject_reply=*/true);
  Refuse();
  ConfirmByRead();
  BasicPeer();
  MarkTheEnd();
  for (const auto& [name, count] : sent) std::printf("%s %d\n", name.c_str(), count);
}
