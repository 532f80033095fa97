// SPDX-License-Identifier: Apache-2.0
// Seeds of fz_mpa_request and fz_mpa_reply.
#include "provider/soft/cm/handshake.h"
#include "provider/soft/wire/ndb_header.h"
#include "tests/fuzz/seeds.h"

namespace nd::fuzz {
namespace {

using namespace provider::soft;
using provider::Bytes;

constexpr unsigned kTcp = 1, kNoCrcWanted = 2, kSayNo = 4, kPeerLeaves = 8, kEarly = 16;

struct Frame {
  bool reply = false;
  unsigned flags = 0x50, revision = 2;  // C and S.
  unsigned first = 0x8010, second = 0xC010;
  std::string data;
  int length = -1;  // The length field of the frame; -1: the actual length.

  Seed& AppendTo(Seed& seed) const {
    const bool words = (flags & 0x10) != 0 && revision == 2 && length != 0;
    const std::size_t size = data.size() + (words ? 4 : 0);
    seed.Text(reply ? "MPA ID Rep Frame" : "MPA ID Req Frame").U8(flags).U8(revision);
    seed.Big16(length >= 0 ? static_cast<unsigned>(length) : static_cast<unsigned>(size));
    if (words) seed.Big16(first).Big16(second);
    return seed.Text(data);
  }
};

std::string Ports(std::string_view more = "", unsigned reason = 0, unsigned source = 0x5678,
                  unsigned destination = 0x1234) {
  std::byte bytes[wire::kNdbHeaderSize];
  wire::EncodeNdbHeader({static_cast<Detail>(reason), 1, static_cast<std::uint16_t>(source),
                         static_cast<std::uint16_t>(destination)},
                        bytes);
  return std::string(reinterpret_cast<const char*>(bytes), sizeof bytes) + std::string(more);
}

// Makes flags, piece sizes, and two bytes that the target reads as limits.
Seed Script(unsigned flags, const Frame& frame) {
  Seed seed;
  seed.U8(flags).U8(frame.reply ? 3 : 17).U8(0x12).U8(frame.reply ? 0x03 : 5);
  frame.AppendTo(seed);
  return seed;
}

void AddRequests(SeedWriter& writer) {
  using handshake_internal::ReadResponseFrame;
  using handshake_internal::RtrReadFrame;
  using handshake_internal::RtrWriteFrame;
  using handshake_internal::SendFrame;
  using handshake_internal::TerminateFrame;
  const auto add = [&](std::string_view name, const Seed& seed) { writer.Add("mpa_request", name, seed); };
  Frame own;
  own.data = Ports("hello");
  Frame siw;  // As sent by Linux siw.
  siw.flags = 0x10;
  siw.first = 0x0004;
  siw.second = 0x0004;
  const auto with = [&](unsigned flags, const Frame& frame, const Bytes& after) {
    Seed seed = Script(flags, frame);
    seed.Bytes(std::span<const std::uint8_t>(after));
    return seed;
  };
  add("own-write-rtr", with(0, own, RtrWriteFrame(true)));
  add("own-rejected", Script(kSayNo, own));
  add("own-rejection-with-data", [&] {
    Seed seed = with(0, own, SendFrame({'n', 'o'}, 1, true));
    seed.Bytes(std::span<const std::uint8_t>(TerminateFrame(wire::fault::kStreamCatastrophic, true)));
    return seed;
  }());
  add("own-rejection", with(0, own, TerminateFrame(wire::fault::kStreamCatastrophic, true)));
  add("own-data-instead-of-rtr", with(0, own, SendFrame(Bytes(300, 'x'), 1, true)));
  add("own-send-then-send", [&] {
    Seed seed = with(0, own, SendFrame({'a'}, 1, true));
    seed.Bytes(std::span<const std::uint8_t>(SendFrame({'b'}, 2, true)));
    return seed;
  }());
  Frame read_only = own;
  read_only.second = 0x4010;
  add("own-read-rtr", with(0, read_only, RtrReadFrame(true)));
  add("rtr-of-the-other-kind", with(0, own, RtrReadFrame(true)));
  add("response-instead-of-rtr", with(0, own, ReadResponseFrame(1, 0, true)));
  add("siw-request", Script(kTcp, siw));
  Frame plain;
  plain.flags = 0;
  plain.revision = 1;
  add("revision-1", Script(kTcp | kNoCrcWanted, plain));

  // Historic bugs, listed in README.md.
  Frame frame = siw;
  frame.length = 3;
  add("mpa-length-underflow", Script(kTcp, frame));
  frame.length = 0;
  add("enhanced-request-without-its-four-bytes", Script(kTcp, frame));
  for (const int length : {252, 255, 256, 257, 508, 512}) {
    frame = siw;
    frame.data.assign(static_cast<std::size_t>(length) - 4, 'p');
    add("private-data-" + std::to_string(length), Script(kTcp, frame));
  }
  frame = siw;
  frame.length = 0xFFFF;
  add("claims-more-than-sent", Script(kTcp, frame));
  frame.length = 513;
  add("private-data-513", Script(kTcp, frame));
  frame = own;
  frame.flags |= 0x80;
  add("markers-wanted", Script(0, frame));
  frame = siw;
  frame.revision = 3;
  add("revision-3", Script(kTcp, frame));
  frame = siw;
  frame.flags |= 0x28;
  add("reserved-flags-and-reject", Script(kTcp, frame));
  add("peer-leaves-before-the-answer", Script(kPeerLeaves, own));
  add("first-fpdu-behind-the-request", with(kEarly, own, RtrWriteFrame(true)));
  Bytes bad = RtrWriteFrame(true);
  bad[2] ^= 0x03;
  const auto frame_of_bad = std::as_writable_bytes(std::span(bad));
  wire::SealFpdu(frame_of_bad, wire::LoadBig<std::uint16_t>(frame_of_bad.data()), true);
  add("cve-2026-23242-bad-first-header", with(0, own, bad));
  bad = RtrWriteFrame(true);
  bad.back() ^= 1;
  add("p2p-first-fpdu-bad-crc", with(0, own, bad));
  add("p2p-first-fpdu-empty", with(0, own, Bytes{0, 0, 0, 0, 0, 0, 0, 0}));
  bad = RtrWriteFrame(true);
  bad[1] = 13;
  add("p2p-first-fpdu-shorter-than-its-header", with(0, own, bad));
  add("zero-length-send-as-rtr", with(kTcp, siw, SendFrame({}, 1, true)));
  Frame peer = siw;
  peer.first |= 0xC000;
  add("send-rtr-only", with(kTcp, peer, SendFrame({}, 1, true)));
  // A Terminate that is longer than a driver peeks.
  Bytes overlong = TerminateFrame(wire::fault::kCrc, true);
  overlong[0] = 0x20;
  overlong.resize(1200);
  add("overlong-terminate-as-rtr", with(0, own, overlong));
  Bytes both = RtrWriteFrame(true);
  const Bytes data = SendFrame({'d'}, 1, true);
  both.insert(both.end(), data.begin(), data.end());
  add("lost-first-fpdu", with(0, own, both));
}

void AddReplies(SeedWriter& writer) {
  const auto add = [&](std::string_view name, const Seed& seed) { writer.Add("mpa_reply", name, seed); };
  Frame own;
  own.reply = true;
  own.first = 0x8010;
  own.second = 0x8010;
  own.data = Ports("welcome");
  Frame siw = own;
  siw.data.clear();
  siw.flags = 0x10;
  siw.first = siw.second = 0x0004;
  add("own-write-rtr", Script(0, own));
  add("own-rejected-by-us", Script(kSayNo, own));
  Frame read_only = own;
  read_only.second = 0x4010;
  Seed response = Script(0, read_only);
  response.Bytes(std::span<const std::uint8_t>(handshake_internal::ReadResponseFrame(0, 0, true)));
  add("own-read-rtr", response);
  Seed broken = Script(0, read_only);
  broken.Bytes(std::span<const std::uint8_t>(handshake_internal::SendFrame({'x'}, 1, true)));
  add("data-instead-of-the-response", broken);
  Seed longer = Script(0, read_only);
  longer.Bytes(std::span<const std::uint8_t>(
      Bytes{0, 15, 0xC1, 0x42, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 0}));
  add("rtr-response-longer-than-asked", longer);
  add("siw-reply", Script(kTcp, siw));
  Frame frame = siw;
  frame.length = 0;
  add("enhanced-reply-without-its-four-bytes", Script(kTcp, frame));
  frame.length = 3;
  add("mpa-length-underflow", Script(kTcp, frame));
  frame = own;
  frame.flags |= 0x20;
  for (unsigned reason = 0; reason <= 24; ++reason) {
    frame.data = Ports("because", reason);
    add("rejected-" + std::to_string(reason), Script(0, frame));
  }
  frame.data = "no header";
  add("rejected-by-a-stranger", Script(0, frame));
  frame = siw;
  frame.flags |= 0x20;
  frame.data = "reason";
  add("rejected-with-data", Script(kTcp, frame));
  frame = own;
  frame.flags |= 0x80;
  add("markers", Script(0, frame));
  frame = own;
  frame.second = 0x8000 | 16382;
  add("insufficient-ird", Script(0, frame));
  frame = own;
  frame.second = 0x0010;
  add("no-common-rtr", Script(0, frame));
  frame = own;
  frame.first = 0x8000 | 16383;
  add("limits-unknown", Script(0, frame));
  frame = siw;
  frame.revision = 1;
  add("revision-1", Script(kTcp, frame));
  frame = own;
  frame.data = Ports("", 0, 1, 2);
  add("other-ports", Script(0, frame));
  Seed behind = Script(kEarly, own);
  behind.Bytes(std::span<const std::uint8_t>(handshake_internal::SendFrame({'x'}, 1, true)));
  add("fpdu-behind-the-reply", behind);
  add("peer-leaves-after-the-reply", Script(kPeerLeaves, own));
}

}  // namespace

void AddHandshakeSeeds(SeedWriter& writer) {
  AddRequests(writer);
  AddReplies(writer);
}

}  // namespace nd::fuzz
