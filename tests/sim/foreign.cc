// SPDX-License-Identifier: Apache-2.0
// Foreign peers: everything that a peer can send to a port, before and after a handshake.
#include "tests/sim/foreign.h"

#include <algorithm>
#include <utility>

#include "provider/soft/cm/handshake.h"
#include "provider/soft/transports.h"
#include "provider/soft/wire/mpa.h"
#include "provider/soft/wire/ndb_header.h"

namespace nd::sim {
namespace {

namespace wire = provider::soft::wire;
namespace frames = provider::soft::handshake_internal;

// The plan of a peer, after a handshake that may be valid.
enum Mind : int { kHonest, kSlow, kSilent, kGarbage, kMutates, kTooMuch, kCutShort, kHangsUp, kMinds };

Bytes Encode(const wire::MpaFrame& frame) {
  Bytes bytes(wire::MpaFrameSize(frame));
  wire::EncodeMpa(frame, std::as_writable_bytes(std::span(bytes)));
  return bytes;
}

Address Ip(const std::string& text) {
  return Address::Parse(text).value();
}

}  // namespace

void Foreign::Start() {
  for (std::uint16_t port = 7000; port < 7004; ++port) {
    net_.Listen(Ip("10.9.0.1").WithPort(port), [this](EndId end, const Address&, const Address&) {
      net_.SetOwner(end, Owner::kForeign, -1);
      if (over_) return net_.Close(end, true);
      ++peers;
      auto peer = std::make_unique<Peer>();
      peer->end = end;
      peer->mind = dice_.Chance(600) ? static_cast<int>(kHonest) : static_cast<int>(dice_.Below(kMinds));
      peers_[end] = std::move(peer);
      net_.Watch(end, [this, end] { OnServerInput(end); });
    });
  }
}

Address Foreign::Target() {
  const std::string host = std::to_string(dice_.Below(static_cast<std::uint32_t>(hosts_)));
  if (dice_.Chance(300)) return Ip("10.0." + host + ".1").WithPort(4794);
  return Ip("10.1." + host + ".1").WithPort(static_cast<std::uint16_t>(7000 + dice_.Below(2)));
}

Bytes Foreign::Request() {
  wire::MpaFrame frame;
  frame.crc = dice_.Chance(500);
  frame.revision = dice_.Chance(700) ? 2 : 1;
  frame.enhanced = frame.revision == 2 && dice_.Chance(800);
  frame.markers = dice_.Chance(50);
  frame.rejected = dice_.Chance(30);
  frame.words.peer_to_peer = dice_.Chance(700);
  frame.words.rtr_write = dice_.Chance(600);
  frame.words.rtr_read = dice_.Chance(600);
  frame.words.rtr_send = dice_.Chance(100);
  frame.words.ird = static_cast<std::uint16_t>(dice_.Chance(100) ? 16383 : dice_.Below(300));
  frame.words.ord = static_cast<std::uint16_t>(dice_.Chance(100) ? 16383 : dice_.Below(300));
  Bytes data(dice_.Below(40), 0x55);
  if (dice_.Chance(400)) {
    wire::NdbHeader header;
    header.source_port = static_cast<std::uint16_t>(5000 + dice_.Below(5));
    header.destination_port = static_cast<std::uint16_t>(7000 + dice_.Below(2));
    header.flags = wire::kNdbConfirmationReads;
    data.resize(std::max(data.size(), wire::kNdbHeaderSize));
    wire::EncodeNdbHeader(header, std::as_writable_bytes(std::span(data)).data());
  }
  frame.private_data = wire::AsBytes(data);
  return Encode(frame);
}

void Foreign::Act() {
  if (over_ || peers_.size() > 12) return;
  ++peers;
  auto peer = std::make_unique<Peer>();
  peer->client = true;
  peer->mind = dice_.Chance(400) ? static_cast<int>(kHonest) : static_cast<int>(dice_.Below(kMinds));
  peer->request = Request();
  Bytes& request = peer->request;
  if (peer->mind == kGarbage) {
    for (std::uint8_t& byte : request) byte = static_cast<std::uint8_t>(dice_.Below(256));
  }
  if (peer->mind == kMutates) dice_.Pick(request) ^= static_cast<std::uint8_t>(1u << dice_.Below(8));
  if (peer->mind == kTooMuch) request.resize(request.size() + dice_.Between(1, 600), 0x11);
  if (peer->mind == kCutShort) request.resize(dice_.Below(static_cast<std::uint32_t>(request.size())));
  const Address from = Ip("10.9.0.2").WithPort(static_cast<std::uint16_t>(20000 + dice_.Below(40000)));
  auto end = std::make_shared<EndId>(0);
  *end =
      net_.Connect(from, Target(), Owner::kForeign, -1, [this, end](int error) { Connected(*end, error); });
  peer->end = *end;
  peers_[*end] = std::move(peer);
}

void Foreign::Connected(EndId end, int error) {
  if (error != 0) return Drop(end, true);
  net_.Watch(end, [this, end] { OnClientInput(end); });
  // Every peer closes its connection after a while.
  schedule_.After(dice_.Millis(100, 40000), [this, end] { Drop(end, dice_.Chance(500)); });
  Trickle(end);
}

// Sends one piece after the other; slow peers send byte by byte.
void Foreign::Trickle(EndId end) {
  const auto found = peers_.find(end);
  if (found == peers_.end()) return;
  Peer& peer = *found->second;
  const std::size_t left = peer.request.size() - peer.sent;
  if (left == 0) {
    if (peer.mind == kHangsUp) Drop(end, dice_.Chance(500));
    return;
  }
  const std::size_t piece = peer.mind == kSlow ? 1 : left;
  net_.Send(end, std::span(peer.request).subspan(peer.sent, piece));
  peer.sent += piece;
  if (peer.mind != kSlow) return Trickle(end);
  schedule_.After(dice_.Millis(1, 400), [this, end] { Trickle(end); });
}

void Foreign::OnClientInput(EndId end) {
  const auto found = peers_.find(end);
  if (found == peers_.end() || found->second->talk) return;
  Peer& peer = *found->second;
  if (net_.PeerFinished(end)) return Drop(end, true);
  if (peer.answered || peer.mind == kSilent) return;
  const wire::MpaDecoded reply = wire::DecodeMpa(wire::MpaKind::kReply, wire::AsBytes(net_.Peek(end)));
  if (reply.verdict == wire::Verdict::kNeedMore) return;
  if (reply.verdict == wire::Verdict::kBad || reply.frame.rejected) return Drop(end, false);
  peer.answered = true;
  const bool crc = reply.frame.crc;
  const bool peer_to_peer = reply.frame.enhanced && reply.frame.words.peer_to_peer;
  const bool read = reply.frame.words.rtr_read;
  net_.Consume(end, reply.size);
  Bytes first;
  if (peer_to_peer) first = read ? frames::RtrReadFrame(crc) : frames::RtrWriteFrame(crc);
  switch (peer.mind) {
    case kGarbage:
      for (std::uint8_t& byte : first) byte = static_cast<std::uint8_t>(dice_.Below(256));
      break;
    case kMutates:
      if (!first.empty()) dice_.Pick(first) ^= 0x40;
      break;
    case kTooMuch: {
      // Both kinds of RTR frame, or a Send before them.
      const Bytes more =
          dice_.Chance(500) ? frames::RtrWriteFrame(crc) : frames::SendFrame({1, 2, 3}, 1, crc);
      first.insert(first.begin(), more.begin(), more.end());
      break;
    }
    case kCutShort:
      first = frames::TerminateFrame(wire::fault::kStreamCatastrophic, crc);
      break;
    default:
      break;
  }
  net_.Send(end, first);
  if (peer.mind == kHonest || peer.mind == kSlow) {
    // A Read is answered before anything else is sent; the talk reads the answer as a response.
    if (peer_to_peer && read) {
      schedule_.After(std::chrono::seconds(1), [this, end, crc] {
        const wire::FpduDecoded answer = wire::DecodeFpdu(wire::AsBytes(net_.Peek(end)), crc);
        if (answer.verdict == wire::Verdict::kComplete) net_.Consume(end, answer.size);
        Chat(end, crc);
      });
      return;
    }
    Chat(end, crc);
  }
}

void Foreign::OnServerInput(EndId end) {
  const auto found = peers_.find(end);
  if (found == peers_.end() || found->second->talk) return;
  Peer& peer = *found->second;
  if (net_.PeerFinished(end)) return Drop(end, true);
  if (peer.mind == kSilent) return;
  if (!peer.answered) {
    const wire::MpaDecoded request = wire::DecodeMpa(wire::MpaKind::kRequest, wire::AsBytes(net_.Peek(end)));
    if (request.verdict == wire::Verdict::kNeedMore) return;
    if (request.verdict == wire::Verdict::kBad) return Drop(end, true);
    peer.answered = true;
    wire::MpaFrame reply;
    reply.kind = wire::MpaKind::kReply;
    reply.revision = request.frame.revision;
    reply.enhanced = request.frame.enhanced && dice_.Chance(850);
    reply.crc = request.frame.crc || dice_.Chance(200);
    reply.rejected = dice_.Chance(150);
    reply.markers = dice_.Chance(30);
    reply.words.peer_to_peer = dice_.Chance(800);
    reply.words.rtr_write = dice_.Chance(600);
    reply.words.rtr_read = !reply.words.rtr_write || dice_.Chance(300);
    const std::uint16_t ird = request.frame.words.ird, ord = request.frame.words.ord;
    reply.words.ird = dice_.Chance(100) ? std::uint16_t{9000} : ord;
    reply.words.ord = dice_.Chance(100) ? std::uint16_t{9000} : ird;
    if (dice_.Chance(50)) reply.words.ird = 16383;
    const Bytes data(dice_.Below(30), 0x66);
    reply.private_data = wire::AsBytes(data);
    Bytes bytes = Encode(reply);
    net_.Consume(end, request.size);
    peer.crc = reply.crc;
    peer.enhanced = reply.enhanced && reply.words.peer_to_peer;
    const bool rejected = reply.rejected;
    if (peer.mind == kGarbage) {
      for (std::uint8_t& byte : bytes) byte = static_cast<std::uint8_t>(dice_.Below(256));
    }
    if (peer.mind == kMutates) dice_.Pick(bytes) ^= 0x04;
    if (peer.mind == kTooMuch) bytes.resize(bytes.size() + 30, 0x22);
    if (peer.mind == kCutShort) bytes.resize(dice_.Below(static_cast<std::uint32_t>(bytes.size())));
    schedule_.After(dice_.Millis(0, peer.mind == kSlow ? 8000 : 5), [this, end, bytes, rejected] {
      const auto still = peers_.find(end);
      if (still == peers_.end()) return;
      net_.Send(end, bytes);
      if (rejected || still->second->mind == kHangsUp) Drop(end, dice_.Chance(300));
    });
    return;
  }
  if (!peer.enhanced) return Chat(end, peer.crc);
  const wire::FpduDecoded first = wire::DecodeFpdu(wire::AsBytes(net_.Peek(end)), peer.crc);
  if (first.verdict != wire::Verdict::kComplete) return;
  wire::Segment segment;
  if (wire::DecodeSegment(first.ulpdu, &segment)) return Drop(end, true);
  const wire::Opcode opcode = segment.opcode;
  wire::ReadRequest read;
  if (opcode == wire::Opcode::kReadRequest) read = wire::DecodeReadRequest(segment.payload);
  if (opcode == wire::Opcode::kTerminate) return Drop(end, false);
  net_.Consume(end, first.size);
  if (opcode == wire::Opcode::kReadRequest) {
    Bytes answer = frames::ReadResponseFrame(read.sink_stag, read.sink_offset, peer.crc);
    if (peer.mind == kMutates) dice_.Pick(answer) ^= 0x08;
    if (peer.mind != kSilent) net_.Send(end, answer);
  }
  Chat(end, peer.crc);
}

void Foreign::Chat(EndId end, bool crc) {
  const auto found = peers_.find(end);
  if (found == peers_.end() || found->second->talk) return;
  Peer& peer = *found->second;
  provider::HandOffRecord record = provider::soft::IwarpRecord();
  record.flags = crc ? provider::kHandOffCrc : 0u;
  ++talked;
  peer.messages_left = dice_.Below(5);
  peer.talk = std::make_unique<Talk>(net_, dice_, end, record, false,
                                     Talk::Callbacks{[this, end](Talk::End how) {
                                                       schedule_.After(Duration{}, [this, end, how] {
                                                         Drop(end, how != Talk::End::kGoodbye);
                                                       });
                                                     },
                                                     [](const std::string&) {}});
  SendNext(end);
}

void Foreign::SendNext(EndId end) {
  const auto found = peers_.find(end);
  if (found == peers_.end()) return;
  Peer& peer = *found->second;
  if (peer.messages_left == 0) {
    peer.talk->Goodbye();
    schedule_.After(std::chrono::seconds(5), [this, end] { Drop(end, true); });
    return;
  }
  --peer.messages_left;
  peer.talk->SendMessage();
  schedule_.After(dice_.Millis(1, 200), [this, end] { SendNext(end); });
}

void Foreign::Drop(EndId end, bool reset) {
  const auto found = peers_.find(end);
  if (found == peers_.end()) return;
  const std::unique_ptr<Peer> gone = std::move(found->second);
  peers_.erase(found);
  gone->talk.reset();
  net_.Close(end, reset);
}

void Foreign::WindDown() {
  over_ = true;
  while (!peers_.empty()) Drop(peers_.begin()->first, true);
}

}  // namespace nd::sim
