// SPDX-License-Identifier: Apache-2.0
// Feeds the receiver of a queue pair through a socket in pieces of any size; completions, memory and answers
// must not depend on the pieces. Checks also that the ring of a shared segment delivers every message,
// however the two ends alternate.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>
#include <sys/socket.h>

#include <cstring>
#include <string>

#include "provider/soft/qp/testing.h"
#include "provider/soft/transports.h"
#include "tests/property/wire_gen.h"

namespace nd::provider::soft {
namespace {

constexpr std::size_t kReceiveSize = 96, kReceives = 16, kRegion = 256;
constexpr std::uint32_t kReads = 4;

// A segment whose STag is set when the STag of the region is known.
struct Item {
  wire::Segment segment;
  Raw payload;
  bool ours = false;  // The STag is that of the region.
  bool crc_broken = false;
};

std::vector<Item> AnyConversation() {
  std::vector<Item> items;
  std::uint32_t msn = 1, read_msn = 1;
  const int count = *rc::gen::inRange(1, 8);
  for (int i = 0; i < count; ++i) {
    Item item;
    wire::Segment& segment = item.segment;
    switch (*rc::gen::inRange(0, 8)) {
      case 0:
      case 1:
      case 2: {
        // One message in one to three segments.
        const Raw data = AnyBytes(kReceiveSize);
        std::size_t at = 0;
        for (const std::size_t cut : {data.size() / 3, data.size() / 2, data.size()}) {
          if (cut == at && cut != data.size()) continue;
          Item piece;
          piece.segment.opcode = wire::Opcode::kSend;
          piece.segment.msn = msn;
          piece.segment.message_offset = static_cast<std::uint32_t>(at);
          piece.segment.last = cut == data.size();
          piece.payload.assign(data.begin() + static_cast<std::ptrdiff_t>(at),
                               data.begin() + static_cast<std::ptrdiff_t>(cut));
          items.push_back(piece);
          at = cut;
          if (piece.segment.last) break;
        }
        ++msn;
        continue;
      }
      case 3:
      case 4:
        segment.opcode = wire::Opcode::kWrite;
        segment.offset = *rc::gen::inRange<std::uint64_t>(0, kRegion);
        item.payload = AnyBytes(kRegion - segment.offset);
        item.ours = true;
        break;
      case 5: {
        // More Reads at once than the limit are a violation, and the number at once depends on timing.
        if (read_msn > kReads) continue;
        segment.opcode = wire::Opcode::kReadRequest;
        segment.msn = read_msn++;
        wire::ReadRequest request;
        request.size = *rc::gen::inRange<std::uint32_t>(0, 64);
        item.payload.resize(wire::kReadRequestSize);
        wire::EncodeReadRequest(request, std::as_writable_bytes(std::span(item.payload)).data());
        item.ours = true;
        break;
      }
      case 6:
        // Sometimes a random segment breaks the rules.
        segment = AnySegment();
        item.payload.resize(wire::RuleOf(segment.opcode).min_payload);
        break;
      default:
        item.crc_broken = *rc::gen::inRange(0, 4) == 0;
        segment.opcode = wire::Opcode::kWrite;
        item.ours = true;
    }
    items.push_back(item);
  }
  return items;
}

Raw StreamOf(const std::vector<Item>& items, std::uint32_t token, std::uint64_t base) {
  Raw stream;
  for (const Item& item : items) {
    wire::Segment segment = item.segment;
    Raw payload = item.payload;
    if (item.ours && segment.opcode == wire::Opcode::kReadRequest) {
      wire::ReadRequest request = wire::DecodeReadRequest(SpanOf(payload));
      request.source_stag = token;
      request.source_offset = base;
      wire::EncodeReadRequest(request, std::as_writable_bytes(std::span(payload)).data());
    } else if (item.ours) {
      segment.stag = token;
      segment.offset += base;
    }
    Raw ulpdu(wire::kMaxSegmentHeader);
    ulpdu.resize(wire::EncodeSegmentHeader(segment, std::as_writable_bytes(std::span(ulpdu)).data()));
    ulpdu.insert(ulpdu.end(), payload.begin(), payload.end());
    Raw frame = Fpdu(ulpdu, true);
    if (item.crc_broken) frame.back() ^= 1;
    stream.insert(stream.end(), frame.begin(), frame.end());
  }
  return stream;
}

struct Result {
  std::string completions, answers;
  std::vector<std::byte> received, region;
  int closed = 0;
};

// Cuts are fractions of the stream, because its bytes differ in STags from run to run.
Result Run(const std::vector<Item>& items, const std::vector<std::size_t>& cuts) {
  Tuning tuning;
  tuning.rnr_timeout = std::chrono::hours(1);
  End end(tuning, false);
  Memory receives(end, kReceiveSize * kReceives, false, kAllowLocalWrite);
  Memory region(end, kRegion, false);
  region.Fill(3);
  int sockets[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) != 0) return {};
  const UniqueFd peer(sockets[0]);
  HandOff hand_off;
  hand_off.fds.emplace_back(sockets[1]);
  hand_off.record = nd::provider::soft::IwarpRecord({.max_ulpdu = 1000});
  hand_off.record.flags = kHandOffCrc;
  hand_off.record.read_inbound = hand_off.record.read_outbound = kReads;
  EXPECT_TRUE(end.qp->Attach(std::move(hand_off)).ok());
  for (std::size_t i = 0; i < kReceives; ++i) {
    const Sge sge = receives.At(i * kReceiveSize, kReceiveSize);
    EXPECT_TRUE(end.qp->Receive(Tag(i), {&sge, 1}).ok());
  }
  Result result;
  Raw answer;
  const auto look = [&] {
    for (int i = 0; i < 4; ++i) {
      Completion all[kReceives];
      const std::size_t count = end.cq->Poll(all);
      for (std::size_t c = 0; c < count; ++c) {
        result.completions += std::to_string(reinterpret_cast<std::uintptr_t>(all[c].request_context)) + ":" +
                              std::string(Name(all[c].status)) + ":" +
                              std::to_string(all[c].bytes_transferred) + " ";
      }
    }
    std::uint8_t bytes[4096];
    for (;;) {
      const ssize_t got = recv(peer.get(), bytes, sizeof bytes, MSG_DONTWAIT);
      if (got <= 0) break;
      answer.insert(answer.end(), bytes, bytes + got);
    }
  };
  const Raw stream = StreamOf(items, region.token(), region.Address());
  std::size_t at = 0;
  for (const std::size_t cut : cuts) {
    if (cut > at) {
      [[maybe_unused]] const ssize_t sent =
          send(peer.get(), stream.data() + at, cut - at, MSG_NOSIGNAL | MSG_DONTWAIT);
    }
    at = cut;
    look();
  }
  look();
  // Opcodes only, because a Terminate quotes STags, which differ from run to run.
  for (std::size_t read = 0;;) {
    const wire::FpduDecoded frame = wire::DecodeFpdu(SpanOf(answer).subspan(read), true);
    if (frame.verdict != wire::Verdict::kComplete) break;
    wire::Segment segment;
    const bool good = frame.crc_ok && !wire::DecodeSegment(frame.ulpdu, &segment);
    result.answers += good ? std::string(wire::RuleOf(segment.opcode).name) + ";" : "damaged;";
    read += frame.size;
  }
  // Whether a Read before the end of the connection is answered depends on timing.
  const std::string response = std::string(wire::RuleOf(wire::Opcode::kReadResponse).name) + ";";
  const bool ended = result.answers.find(wire::RuleOf(wire::Opcode::kTerminate).name) != std::string::npos;
  if (ended || end.closed != 0) {
    for (std::size_t found; (found = result.answers.find(response)) != std::string::npos;) {
      result.answers.erase(found, response.size());
    }
  }
  result.received.assign(receives.data, receives.data + receives.size);
  result.region.assign(region.data, region.data + region.size);
  result.closed = end.closed;
  return result;
}

RC_GTEST_PROP(Receive, AnyConversationMeansTheSameInPieces, ()) {
  const std::vector<Item> items = AnyConversation();
  const std::size_t size = StreamOf(items, 1, 0).size();
  const Result whole = Run(items, {size});
  const Result pieces = Run(items, AnyCuts(size));
  RC_ASSERT(pieces.completions == whole.completions);
  RC_ASSERT(pieces.answers == whole.answers);
  RC_ASSERT(pieces.received == whole.received);
  RC_ASSERT(pieces.region == whole.region);
  RC_ASSERT(pieces.closed == whole.closed);
}

// Sends of any size through a ring; the two ends run in any order.
RC_GTEST_PROP(Ring, MessagesComeOutInOrder, ()) {
  const Link link = *rc::gen::element(Link::kShared, Link::kSharedRingOnly);
  Tuning tuning;
  tuning.rnr_timeout = std::chrono::hours(1);
  End sender(tuning, false), receiver(tuning, false);
  HandOffs both = MakeHandOffs(link);
  RC_ASSERT(sender.qp->Attach(std::move(both.active)).ok());
  RC_ASSERT(receiver.qp->Attach(std::move(both.passive)).ok());
  constexpr std::size_t kMost = 40000;
  const auto count = *rc::gen::inRange<std::size_t>(1, 10);
  Memory out(sender, kMost * 10, false, kAllowLocalWrite), in(receiver, kMost * 10, false, kAllowLocalWrite);
  out.Fill(5);
  std::vector<std::uint32_t> sizes;
  for (std::size_t i = 0; i < count; ++i) {
    sizes.push_back(
        *rc::gen::oneOf(rc::gen::inRange<std::uint32_t>(0, 100), rc::gen::inRange<std::uint32_t>(0, kMost)));
    const Sge sge = in.At(i * kMost, kMost);
    RC_ASSERT(receiver.qp->Receive(Tag(i), {&sge, 1}).ok());
  }
  std::size_t posted = 0, sent = 0;
  std::vector<std::uint32_t> received;
  for (int turn = 0; turn < 4000 && (sent < count || received.size() < count); ++turn) {
    Completion all[16];
    switch (turn < 60 ? *rc::gen::inRange(0, 3) : turn % 3) {
      case 0:
        if (posted < count) {
          const Sge sge = out.At(posted * kMost, sizes[posted]);
          RC_ASSERT(sender.qp->Send(Tag(posted), {&sge, 1}, 0).ok());
          ++posted;
        }
        break;
      case 1:
        for (std::size_t i = sender.cq->Poll(all); i > 0; --i) {
          RC_ASSERT(all[i - 1].status == StatusCode::kSuccess);
          ++sent;
        }
        break;
      default:
        for (const Completion& c : std::span(all).first(receiver.cq->Poll(all))) {
          RC_ASSERT(c.status == StatusCode::kSuccess);
          received.push_back(c.bytes_transferred);
        }
    }
  }
  RC_ASSERT(sent == count);
  RC_ASSERT(received == sizes);
  for (std::size_t i = 0; i < count; ++i) {
    RC_ASSERT(std::memcmp(in.data + i * kMost, out.data + i * kMost, sizes[i]) == 0);
  }
}

}  // namespace
}  // namespace nd::provider::soft
