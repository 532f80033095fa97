// SPDX-License-Identifier: Apache-2.0
// The verdict and the output for a byte stream do not depend on how it is cut.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <string>

#include "provider/soft/cm/handshake.h"
#include "tests/property/wire_gen.h"

namespace nd::provider::soft {
namespace {

using Event = HandshakeStep::Event;

// The output and the events of a handshake until its end or the end of the stream.
struct Story {
  std::string text;
  Bytes sent;
  std::size_t consumed = 0;
  bool over = false;

  void Add(const HandshakeStep& step) {
    consumed += step.consumed;
    sent.insert(sent.end(), step.send.begin(), step.send.end());
    if (step.event == Event::kNone && step.consumed == 0 && step.close == HandshakeStep::Close::kNo) return;
    text += std::to_string(static_cast<int>(step.event)) + "/" +
            std::to_string(static_cast<int>(step.close)) + " " + step.status.ToString() + " " +
            std::to_string(step.limits.inbound) + ":" + std::to_string(step.limits.outbound) + " " +
            std::to_string(step.private_data.size()) + ";";
    over = over || step.close != HandshakeStep::Close::kNo || step.event == Event::kEstablished ||
           step.event == Event::kDropped || step.event == Event::kLost || step.event == Event::kFailed ||
           step.event == Event::kRejected;
  }
};

// Passes the stream up to each cut, as a peeking driver does.
template <typename Handshake, typename OnEvent>
Story Feed(Handshake& handshake, const Raw& stream, const std::vector<std::size_t>& cuts, Story story,
           OnEvent on_event) {
  std::size_t shown = 0;
  for (const std::size_t cut : cuts) {
    if (cut == shown || cut <= story.consumed) continue;
    shown = cut;
    for (bool again = true; again && !story.over && cut > story.consumed;) {
      const std::size_t end = std::min(cut, story.consumed + kHandshakePeek);
      const HandshakeStep step =
          handshake.OnInput(SpanOf(stream).subspan(story.consumed, end - story.consumed));
      story.Add(step);
      again = step.consumed != 0;
      if (!story.over) again = on_event(step, story) || again;
    }
    if (story.over) break;
  }
  return story;
}

HandshakeConfig AnyConfig(PortMode mode) {
  return {mode, *rc::gen::arbitrary<bool>(), *rc::gen::inRange<std::uint32_t>(0, 300)};
}

Raw Spoiled(Raw stream) {
  if (!stream.empty() && *rc::gen::inRange(0, 3) == 0) {
    stream[*rc::gen::inRange<std::size_t>(0, stream.size())] ^=
        static_cast<std::uint8_t>(1u << *rc::gen::inRange(0, 8));
  }
  return stream;
}

void Append(Raw* to, const Bytes& more) {
  to->insert(to->end(), more.begin(), more.end());
}

// The bytes of the peer of a passive handshake: the request, and the bytes after the reply.
struct PeerSays {
  Raw request, first;
};

PeerSays AnyInitiator(PortMode mode) {
  PeerSays peer;
  OwnedFrame request = AnyMpaFrame(wire::MpaKind::kRequest);
  if (mode == PortMode::kSeparate) {
    wire::NdbHeader header;
    header.source_port = 5;
    header.destination_port = 6;
    Raw with(wire::kNdbHeaderSize);
    wire::EncodeNdbHeader(header, std::as_writable_bytes(std::span(with)).data());
    request.data.resize(std::min<std::size_t>(request.data.size(), 200));
    request.data.insert(request.data.begin(), with.begin(), with.end());
  }
  peer.request = Spoiled(request.Encoded());
  const bool crc = *rc::gen::arbitrary<bool>();
  switch (*rc::gen::inRange(0, 7)) {
    case 0:
      Append(&peer.first, handshake_internal::RtrWriteFrame(crc));
      break;
    case 1:
      Append(&peer.first, handshake_internal::RtrReadFrame(crc));
      break;
    case 2:
      Append(&peer.first, handshake_internal::TerminateFrame(wire::fault::kStreamCatastrophic, crc));
      break;
    case 3:
      Append(&peer.first, handshake_internal::SendFrame(AnyBytes(200), 1, crc));
      Append(&peer.first, handshake_internal::TerminateFrame(wire::fault::kStreamCatastrophic, crc));
      break;
    case 4:
      Append(&peer.first, handshake_internal::SendFrame(AnyBytes(300), 1, crc));
      Append(&peer.first, handshake_internal::SendFrame(AnyBytes(300), 2, crc));
      break;
    case 5: {
      const Raw frame = Fpdu(AnyUlpdu(AnySegment()), crc);
      peer.first.insert(peer.first.end(), frame.begin(), frame.end());
      break;
    }
    default:
      peer.first = AnyBytes(100);
  }
  peer.first = Spoiled(peer.first);
  return peer;
}

Story Passive(const HandshakeConfig& config, const PeerSays& peer,
              const std::vector<std::size_t>& cuts_of_request,
              const std::vector<std::size_t>& cuts_of_first) {
  PassiveHandshake handshake(config);
  bool incoming = false;
  Story story = Feed(handshake, peer.request, cuts_of_request, {}, [&](const HandshakeStep& step, Story&) {
    incoming = incoming || step.event == Event::kRequest;
    return false;
  });
  if (story.over || !incoming) return story;
  story.Add(handshake.Accept({7, 9}, {1, 2, 3}));
  if (story.over) return story;
  Story rest = std::move(story);
  rest.consumed = 0;
  return Feed(handshake, peer.first, cuts_of_first, std::move(rest),
              [](const HandshakeStep&, Story&) { return false; });
}

RC_GTEST_PROP(Split, AnyRequestAndFirstFrameMeanTheSameInPieces, ()) {
  const auto mode = *rc::gen::element(PortMode::kSeparate, PortMode::kTcp);
  const HandshakeConfig config = AnyConfig(mode);
  const PeerSays peer = AnyInitiator(mode);
  // Bytes behind a request, before its answer, are judged when they are present (docs/wire.md).
  const wire::MpaDecoded request = wire::DecodeMpa(wire::MpaKind::kRequest, SpanOf(peer.request));
  RC_PRE(request.verdict != wire::Verdict::kComplete || request.size == peer.request.size());
  const Story whole = Passive(config, peer, {peer.request.size()}, {peer.first.size()});
  const Story pieces = Passive(config, peer, AnyCuts(peer.request.size()), AnyCuts(peer.first.size()));
  RC_ASSERT(pieces.text == whole.text);
  RC_ASSERT(pieces.sent == whole.sent);
  RC_ASSERT(pieces.consumed == whole.consumed);
}

Story Active(const HandshakeConfig& config, const Raw& reply, const Raw& answer,
             const std::vector<std::size_t>& cuts_of_reply, const std::vector<std::size_t>& cuts_of_answer) {
  ActiveHandshake handshake(config, 5, 6, {8, 8}, {4, 4});
  Story story;
  story.Add(handshake.Start());
  bool replied = false;
  story = Feed(handshake, reply, cuts_of_reply, std::move(story), [&](const HandshakeStep& step, Story&) {
    replied = replied || step.event == Event::kReply;
    return false;
  });
  if (story.over || !replied) return story;
  story.Add(handshake.Confirm());
  if (story.over) return story;
  story.consumed = 0;
  return Feed(handshake, answer, cuts_of_answer, std::move(story),
              [](const HandshakeStep&, Story&) { return false; });
}

RC_GTEST_PROP(Split, AnyReplyAndReadResponseMeanTheSameInPieces, ()) {
  const auto mode = *rc::gen::element(PortMode::kSeparate, PortMode::kTcp);
  const HandshakeConfig config = AnyConfig(mode);
  OwnedFrame frame = AnyMpaFrame(wire::MpaKind::kReply);
  if (mode == PortMode::kSeparate && *rc::gen::inRange(0, 8) != 0) {
    wire::NdbHeader header;
    header.source_port = 6;
    header.destination_port = 5;
    Raw with(wire::kNdbHeaderSize);
    wire::EncodeNdbHeader(header, std::as_writable_bytes(std::span(with)).data());
    frame.data.resize(std::min<std::size_t>(frame.data.size(), 200));
    frame.data.insert(frame.data.begin(), with.begin(), with.end());
  }
  const Raw reply = Spoiled(frame.Encoded());
  const wire::MpaDecoded decoded = wire::DecodeMpa(wire::MpaKind::kReply, SpanOf(reply));
  RC_PRE(decoded.verdict != wire::Verdict::kComplete || decoded.size == reply.size());
  Raw answer;
  Append(&answer, handshake_internal::ReadResponseFrame(0, 0, *rc::gen::arbitrary<bool>()));
  answer = Spoiled(answer);
  const Story whole = Active(config, reply, answer, {reply.size()}, {answer.size()});
  const Story pieces = Active(config, reply, answer, AnyCuts(reply.size()), AnyCuts(answer.size()));
  RC_ASSERT(pieces.text == whole.text);
  RC_ASSERT(pieces.sent == whole.sent);
  RC_ASSERT(pieces.consumed == whole.consumed);
}

// `need` never includes a byte behind the frame, and a frame is rejected at its first wrong byte.
RC_GTEST_PROP(Split, MpaNeverReadsBeyondTheFrame, ()) {
  const auto kind = *rc::gen::element(wire::MpaKind::kRequest, wire::MpaKind::kReply);
  const Raw bytes = Spoiled(AnyMpaFrame(kind).Encoded());
  const wire::MpaDecoded whole = wire::DecodeMpa(kind, SpanOf(bytes));
  std::size_t have = 0;
  wire::MpaDecoded step = wire::DecodeMpa(kind, {});
  while (step.verdict == wire::Verdict::kNeedMore && have + step.need <= bytes.size()) {
    RC_ASSERT(step.need > 0u);
    have += *rc::gen::inRange<std::size_t>(1, step.need + 1);
    step = wire::DecodeMpa(kind, SpanOf(bytes).first(have));
  }
  RC_ASSERT(step.verdict == whole.verdict);
  RC_ASSERT(step.fault == whole.fault);
  if (whole.verdict == wire::Verdict::kComplete) RC_ASSERT(have == whole.size);
}

RC_GTEST_PROP(Split, AStreamOfFpdusIsTheSameInPieces, (bool crc)) {
  Raw stream;
  std::vector<Raw> ulpdus;
  const int frames = *rc::gen::inRange(1, 6);
  for (int i = 0; i < frames; ++i) {
    ulpdus.push_back(AnyBytes(120));
    const Raw frame = Fpdu(ulpdus.back(), crc);
    stream.insert(stream.end(), frame.begin(), frame.end());
  }
  std::vector<Raw> seen;
  std::size_t taken = 0;
  for (const std::size_t cut : AnyCuts(stream.size())) {
    for (;;) {
      const wire::FpduDecoded frame = wire::DecodeFpdu(SpanOf(stream).subspan(taken, cut - taken), crc);
      if (frame.verdict != wire::Verdict::kComplete) {
        RC_ASSERT(frame.need > 0u);
        break;
      }
      RC_ASSERT(frame.crc_ok);
      seen.push_back(Copy(frame.ulpdu));
      taken += frame.size;
    }
  }
  RC_ASSERT(taken == stream.size());
  RC_ASSERT(seen == ulpdus);
}

}  // namespace
}  // namespace nd::provider::soft
