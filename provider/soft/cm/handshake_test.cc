// SPDX-License-Identifier: Apache-2.0
#include "provider/soft/cm/handshake.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "provider/soft/wire/ndb_header.h"
#include "provider/soft/wire/terminate.h"

namespace nd::provider::soft {
namespace {

using Event = HandshakeStep::Event;
using Close = HandshakeStep::Close;
using handshake_internal::ReadResponseFrame;
using handshake_internal::RtrReadFrame;
using handshake_internal::RtrWriteFrame;
using handshake_internal::SendFrame;
using handshake_internal::TerminateFrame;

const Bytes kAsk = {1, 2, 3}, kAnswer = {9, 8};

HandshakeConfig Config(PortMode mode, bool crc = true) {
  return {mode, crc, 128};
}
wire::ByteSpan Span(const Bytes& bytes) {
  return wire::AsBytes(bytes);
}

Bytes Frame(wire::MpaFrame frame, const Bytes& data = {}) {
  frame.private_data = Span(data);
  Bytes bytes(wire::MpaFrameSize(frame));
  wire::EncodeMpa(frame, std::as_writable_bytes(std::span(bytes)));
  return bytes;
}

wire::MpaFrame Foreign(wire::MpaKind kind, std::uint8_t revision, bool enhanced,
                       wire::EnhancedWords words = {}) {
  wire::MpaFrame frame;
  frame.kind = kind;
  frame.revision = revision;
  frame.enhanced = enhanced;
  frame.words = words;
  return frame;
}

Bytes Join(const Bytes& a, const Bytes& b) {
  Bytes all = a;
  all.insert(all.end(), b.begin(), b.end());
  return all;
}

// Computes the CRC of an altered frame again.
void Seal(Bytes* frame) {
  const std::size_t ulpdu = wire::LoadBig<std::uint16_t>(Span(*frame).data());
  wire::SealFpdu(std::as_writable_bytes(std::span(*frame)), ulpdu, true);
}

// Both roles, connected by lossless pipes.
struct Pair {
  explicit Pair(PortMode mode, ReadLimits offer = {16, 16}, bool active_crc = true, bool passive_crc = true)
      : active(Config(mode, active_crc), 50001, 7000, offer, kAsk), passive(Config(mode, passive_crc)) {}

  HandshakeStep Request() { return passive.OnInput(Span(sent = active.Start().send)); }
  HandshakeStep Accept(ReadLimits limits = {16, 16}) {
    accepted = passive.Accept(limits, kAnswer);
    return active.OnInput(Span(accepted.send));
  }
  HandshakeStep Confirm() { return passive.OnInput(Span(active.Confirm().send)); }

  ActiveHandshake active;
  PassiveHandshake passive;
  Bytes sent;
  HandshakeStep accepted;
};

class BothModes : public testing::TestWithParam<PortMode> {};

TEST_P(BothModes, EstablishesInThreeFrames) {
  Pair pair(GetParam(), {4, 8});
  const HandshakeStep request = pair.Request();
  ASSERT_EQ(request.event, Event::kRequest);
  EXPECT_EQ(request.consumed, pair.sent.size());
  EXPECT_EQ(request.private_data, kAsk);
  EXPECT_TRUE(request.limits_known);
  EXPECT_EQ(request.limits, (ReadLimits{4, 8}));
  if (GetParam() == PortMode::kSeparate) {
    EXPECT_EQ(request.source_port, 50001);
    EXPECT_EQ(request.destination_port, 7000);
  }
  const HandshakeStep reply = pair.Accept({5, 3});
  ASSERT_EQ(reply.event, Event::kReply);
  EXPECT_EQ(pair.accepted.event, Event::kNone);
  EXPECT_EQ(reply.private_data, kAnswer);
  EXPECT_EQ(reply.limits, (ReadLimits{5, 3}));
  const HandshakeStep done = pair.Confirm();
  ASSERT_EQ(done.event, Event::kEstablished);
  EXPECT_EQ(done.consumed, 20u);
  EXPECT_TRUE(pair.active.agreement().crc && pair.passive.agreement().crc);
  EXPECT_EQ(pair.active.agreement().limits, (ReadLimits{3, 5}));
  EXPECT_EQ(pair.passive.agreement().limits, (ReadLimits{5, 3}));
  EXPECT_EQ(pair.active.agreement().confirmation_reads, GetParam() == PortMode::kSeparate);
  EXPECT_EQ(pair.passive.agreement().confirmation_reads, GetParam() == PortMode::kSeparate);
}

TEST_P(BothModes, CrcIsOnWhenEitherSideAsksForIt) {
  for (const unsigned wish : {0u, 1u, 2u, 3u}) {
    Pair pair(GetParam(), {1, 1}, (wish & 1) != 0, (wish & 2) != 0);
    pair.Request();
    pair.Accept();
    EXPECT_EQ(pair.Confirm().event, Event::kEstablished);
    EXPECT_EQ(pair.active.agreement().crc, wish != 0);
    EXPECT_EQ(pair.passive.agreement().crc, wish != 0);
  }
}

TEST_P(BothModes, RejectionCarriesItsData) {
  for (const Bytes& data : {Bytes{}, kAnswer}) {
    Pair pair(GetParam());
    pair.Request();
    const HandshakeStep rejected = pair.passive.Reject(Detail::kPeerRejected, data);
    EXPECT_EQ(rejected.close, Close::kGraceful);
    const HandshakeStep seen = pair.active.OnInput(Span(rejected.send));
    ASSERT_EQ(seen.event, Event::kRejected);
    EXPECT_EQ(seen.status.code(), StatusCode::kConnectionRefused);
    EXPECT_EQ(seen.status.detail(), Detail::kPeerRejected);
    EXPECT_EQ(seen.private_data, data);
  }
}

TEST(Handshake, SeparateModeCarriesTheReasonOfARefusal) {
  for (const Detail reason : {Detail::kNoListener, Detail::kBacklogFull, Detail::kPaused,
                              Detail::kListenerClosed, Detail::kPolicy, Detail::kStaleConnection}) {
    Pair pair(PortMode::kSeparate);
    pair.Request();
    const HandshakeStep seen = pair.active.OnInput(Span(pair.passive.Reject(reason, {}).send));
    EXPECT_EQ(seen.event, Event::kRejected);
    EXPECT_EQ(seen.status.detail(), reason);
    EXPECT_FALSE(seen.status.message().empty());
  }
}

TEST_P(BothModes, ActiveSideMayRejectTheReply) {
  for (const Bytes& data : {Bytes{}, kAsk, Bytes(240, 7)}) {
    Pair pair(GetParam());
    pair.Request();
    pair.Accept();
    const Bytes frames = pair.active.Reject(data).send;
    // The verdict does not depend on how the bytes are split.
    for (std::size_t cut = 0; cut < frames.size(); ++cut) {
      PassiveHandshake copy = pair.passive;
      EXPECT_EQ(copy.OnInput(Span(frames).first(cut)).event, Event::kNone) << cut;
    }
    const HandshakeStep seen = pair.passive.OnInput(Span(frames));
    ASSERT_EQ(seen.event, Event::kLost);
    EXPECT_EQ(seen.status.code(), StatusCode::kConnectionAborted);
    EXPECT_EQ(seen.status.detail(), Detail::kPeerRejected);
    EXPECT_EQ(seen.private_data, GetParam() == PortMode::kSeparate ? data : Bytes{});
  }
}

// Every prefix of the bytes that a side may receive, followed by the end of the stream.
TEST_P(BothModes, EveryCutOfEveryFrameHasADefinedEnd) {
  for (const Ending ending : {Ending::kFin, Ending::kReset, Ending::kTimeout}) {
    const bool timeout = ending == Ending::kTimeout;
    const Bytes request = Pair(GetParam()).active.Start().send;
    for (std::size_t cut = 0; cut < request.size(); ++cut) {
      PassiveHandshake passive(Config(GetParam()));
      ASSERT_EQ(passive.OnInput(Span(request).first(cut)).event, Event::kNone) << cut;
      EXPECT_EQ(passive.deadline(), Deadline::kRequest);
      ASSERT_EQ(passive.OnClosed(ending).event, Event::kDropped);
    }
    Pair pair(GetParam());
    pair.Request();
    {
      PassiveHandshake copy = pair.passive;
      EXPECT_EQ(copy.deadline(), Deadline::kNone);
      const HandshakeStep lost = copy.OnClosed(ending);
      EXPECT_EQ(lost.event, Event::kLost);
      EXPECT_EQ(lost.status.code(), timeout ? StatusCode::kIoTimeout : StatusCode::kConnectionAborted);
    }
    const Bytes reply = pair.passive.Accept({1, 1}, kAnswer).send;
    for (std::size_t cut = 0; cut < reply.size(); ++cut) {
      ActiveHandshake active(Config(GetParam()), 50001, 7000, {16, 16}, kAsk);
      active.Start();
      ASSERT_EQ(active.OnInput(Span(reply).first(cut)).event, Event::kNone) << cut;
      EXPECT_EQ(active.deadline(), Deadline::kNone);
      const HandshakeStep failed = active.OnClosed(ending);
      ASSERT_EQ(failed.event, Event::kFailed);
      const StatusCode closed =
          GetParam() == PortMode::kSeparate ? StatusCode::kHostUnreachable : StatusCode::kConnectionRefused;
      EXPECT_EQ(failed.status.code(), timeout ? StatusCode::kIoTimeout : closed);
    }
    ASSERT_EQ(pair.active.OnInput(Span(reply)).event, Event::kReply);
    {
      Pair replied(GetParam());
      replied.Request();
      replied.Accept();
      const HandshakeStep lost = replied.active.OnClosed(ending);
      EXPECT_EQ(lost.event, Event::kLost);
      EXPECT_EQ(lost.status.code(), timeout ? StatusCode::kIoTimeout : StatusCode::kConnectionAborted);
    }
    const Bytes rtr = pair.active.Confirm().send;
    for (std::size_t cut = 0; cut < rtr.size(); ++cut) {
      PassiveHandshake copy = pair.passive;
      ASSERT_EQ(copy.OnInput(Span(rtr).first(cut)).event, Event::kNone) << cut;
      ASSERT_EQ(copy.OnClosed(ending).event, Event::kLost);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Handshake, BothModes, testing::Values(PortMode::kSeparate, PortMode::kTcp));

TEST(PassiveHandshake, DropsBytesThatAreNoRequest) {
  const Bytes good = Pair(PortMode::kSeparate).active.Start().send;
  const auto verdict = [](const Bytes& bytes) {
    PassiveHandshake passive(Config(PortMode::kSeparate));
    return passive.OnInput(Span(bytes));
  };
  // Each wrong byte of the key ends the handshake at once.
  for (std::size_t at = 0; at < 16; ++at) {
    Bytes bad(good.begin(), good.begin() + static_cast<std::ptrdiff_t>(at) + 1);
    bad[at] ^= 0x20;
    EXPECT_EQ(verdict(bad).event, Event::kDropped) << at;
    EXPECT_EQ(verdict(bad).close, Close::kReset);
  }
  EXPECT_EQ(verdict(Join(good, {0})).event, Event::kDropped);  // A byte behind the frame.
  Bytes foreign = good;
  foreign[24] = 'X';  // The magic.
  EXPECT_EQ(verdict(foreign).event, Event::kDropped);
  const Bytes reply = Frame(Foreign(wire::MpaKind::kReply, 2, true));
  EXPECT_EQ(verdict(reply).event, Event::kDropped);
}

TEST(PassiveHandshake, AnyByteMutationOfARequestHasADefinedVerdict) {
  const Bytes good = Pair(PortMode::kSeparate).active.Start().send;
  for (std::size_t at = 0; at < good.size(); ++at) {
    for (unsigned value = 0; value < 256; ++value) {
      Bytes bad = good;
      bad[at] = static_cast<std::uint8_t>(value);
      PassiveHandshake passive(Config(PortMode::kSeparate));
      const HandshakeStep step = passive.OnInput(Span(bad));
      const bool needs_more = step.event == Event::kNone && at >= 18 && at < 20;
      ASSERT_TRUE(step.event == Event::kRequest || step.event == Event::kDropped || needs_more) << at;
      if (value == good[at]) {
        ASSERT_EQ(step.event, Event::kRequest);
      }
    }
  }
}

TEST(PassiveHandshake, DataBeforeTheAnswerBreaksTheProtocol) {
  Pair pair(PortMode::kSeparate);
  pair.Request();
  const HandshakeStep step = pair.passive.OnInput(Span(Bytes{0}));
  EXPECT_EQ(step.event, Event::kLost);
  EXPECT_EQ(step.status.detail(), Detail::kProtocol);
}

TEST(PassiveHandshake, RefusesMarkersWithAReply) {
  wire::MpaFrame request = Foreign(wire::MpaKind::kRequest, 2, true, {true, false, true, false, 1, 1});
  request.markers = true;
  PassiveHandshake passive(Config(PortMode::kTcp));
  const HandshakeStep step = passive.OnInput(Span(Frame(request)));
  EXPECT_EQ(step.event, Event::kDropped);
  EXPECT_EQ(step.close, Close::kGraceful);
  const wire::MpaDecoded reply = wire::DecodeMpa(wire::MpaKind::kReply, Span(step.send));
  ASSERT_EQ(reply.verdict, wire::Verdict::kComplete);
  EXPECT_TRUE(reply.frame.rejected && reply.frame.enhanced && !reply.frame.markers);
}

TEST(PassiveHandshake, ServesBasicPeersWithoutConfirmation) {
  for (const std::uint8_t revision : {std::uint8_t{1}, std::uint8_t{2}}) {
    PassiveHandshake passive(Config(PortMode::kTcp, false));
    const HandshakeStep request =
        passive.OnInput(Span(Frame(Foreign(wire::MpaKind::kRequest, revision, false), kAsk)));
    ASSERT_EQ(request.event, Event::kRequest);
    EXPECT_FALSE(request.limits_known);
    EXPECT_EQ(request.private_data, kAsk);
    const HandshakeStep accepted = passive.Accept({4, 4}, kAnswer);
    EXPECT_EQ(accepted.event, Event::kEstablished);
    const wire::MpaDecoded reply = wire::DecodeMpa(wire::MpaKind::kReply, Span(accepted.send));
    EXPECT_EQ(reply.frame.revision, revision);
    EXPECT_FALSE(reply.frame.enhanced);
    EXPECT_FALSE(reply.frame.crc);
    EXPECT_EQ(handshake_internal::ToBytes(reply.frame.private_data), kAnswer);
  }
}

// Linux siw's initiator: enhanced, but not peer-to-peer.
TEST(PassiveHandshake, ServesSiwWithoutConfirmation) {
  PassiveHandshake passive(Config(PortMode::kTcp));
  const HandshakeStep request = passive.OnInput(
      Span(Frame(Foreign(wire::MpaKind::kRequest, 2, true, {false, false, true, true, 1, 1}))));
  ASSERT_EQ(request.event, Event::kRequest);
  EXPECT_EQ(request.limits, (ReadLimits{1, 1}));
  const HandshakeStep accepted = passive.Accept({1, 1}, {});
  EXPECT_EQ(accepted.event, Event::kEstablished);
  const wire::MpaDecoded reply = wire::DecodeMpa(wire::MpaKind::kReply, Span(accepted.send));
  EXPECT_EQ(reply.frame.words, (wire::EnhancedWords{false, false, false, false, 1, 1}));
}

struct RtrCase {
  bool offer_send, offer_write, offer_read, expect_read;
};

TEST(PassiveHandshake, ChoosesWriteThenReadAndProposesWriteOtherwise) {
  for (const RtrCase& c : {RtrCase{false, true, true, false}, RtrCase{false, true, false, false},
                           RtrCase{true, false, true, true}, RtrCase{false, false, true, true},
                           RtrCase{true, false, false, false}, RtrCase{false, false, false, false}}) {
    PassiveHandshake passive(Config(PortMode::kTcp, false));
    passive.OnInput(Span(Frame(
        Foreign(wire::MpaKind::kRequest, 2, true, {true, c.offer_send, c.offer_write, c.offer_read, 1, 1}))));
    const HandshakeStep accepted = passive.Accept({1, 1}, {});
    const wire::MpaDecoded reply = wire::DecodeMpa(wire::MpaKind::kReply, Span(accepted.send));
    EXPECT_TRUE(reply.frame.words.peer_to_peer);
    EXPECT_FALSE(reply.frame.words.rtr_send);
    EXPECT_EQ(reply.frame.words.rtr_write, !c.expect_read);
    EXPECT_EQ(reply.frame.words.rtr_read, c.expect_read);
    PassiveHandshake other = passive;
    const HandshakeStep right =
        passive.OnInput(Span(c.expect_read ? RtrReadFrame(false) : RtrWriteFrame(false)));
    EXPECT_EQ(right.event, Event::kEstablished);
    EXPECT_EQ(right.send, c.expect_read ? ReadResponseFrame(0, 0, false) : Bytes{});
    EXPECT_EQ(passive.agreement().read_msn_in, c.expect_read ? 2u : 1u);
    const HandshakeStep wrong =
        other.OnInput(Span(c.expect_read ? RtrWriteFrame(false) : RtrReadFrame(false)));
    EXPECT_EQ(wrong.event, Event::kLost);
    EXPECT_EQ(wrong.status.detail(), Detail::kProtocol);
  }
}

PassiveHandshake AwaitingRtr(PortMode mode) {
  Pair pair(mode);
  pair.Request();
  pair.Accept();
  return pair.passive;
}

TEST(PassiveHandshake, LeavesDataForTheQueuePair) {
  const Bytes rtr = RtrWriteFrame(true), data = SendFrame(Bytes(50, 1), 1, true);
  PassiveHandshake passive = AwaitingRtr(PortMode::kSeparate);
  const HandshakeStep both = passive.OnInput(Span(Join(rtr, data)));
  EXPECT_EQ(both.event, Event::kEstablished);
  EXPECT_EQ(both.consumed, rtr.size());
  // From another implementation, data instead of the RTR frame establishes the connection once its CRC has
  // arrived.
  PassiveHandshake foreign = AwaitingRtr(PortMode::kTcp);
  EXPECT_EQ(foreign.OnInput(Span(data).first(30)).event, Event::kNone);
  const HandshakeStep first = foreign.OnInput(Span(data));
  EXPECT_EQ(first.event, Event::kEstablished);
  EXPECT_EQ(first.consumed, 0u);
}

TEST(PassiveHandshake, SendWithoutTerminateIsData) {
  const Bytes one = SendFrame(kAsk, 1, true), two = SendFrame(kAsk, 2, true);
  PassiveHandshake passive = AwaitingRtr(PortMode::kSeparate);
  EXPECT_EQ(passive.OnInput(Span(one)).event, Event::kNone);
  const HandshakeStep step = passive.OnInput(Span(Join(one, two)));
  EXPECT_EQ(step.event, Event::kEstablished);
  EXPECT_EQ(step.consumed, 0u);
  PassiveHandshake large = AwaitingRtr(PortMode::kSeparate);
  EXPECT_EQ(large.OnInput(Span(SendFrame(Bytes(800, 1), 1, true))).event, Event::kEstablished);
}

TEST(PassiveHandshake, MalformedFirstFramesEndInATerminate) {
  Bytes damaged = RtrWriteFrame(true);
  damaged[19] ^= 1;
  Bytes version = RtrWriteFrame(true);
  version[2] ^= 3;
  const Bytes damaged_version = version;
  Seal(&version);
  Bytes tiny = {0, 1, 0x41, 0, 0, 0, 0, 0};
  Seal(&tiny);
  struct Case {
    Bytes bytes;
    wire::Fault fault;
  };
  for (const Case& c : {Case{damaged, wire::fault::kCrc}, Case{damaged_version, wire::fault::kCrc},
                        Case{version, wire::fault::kDdpTaggedVersion}, Case{tiny, wire::fault::kLength},
                        Case{ReadResponseFrame(1, 0, true), wire::fault::kUnexpectedOpcode}}) {
    PassiveHandshake passive = AwaitingRtr(PortMode::kSeparate);
    const HandshakeStep step = passive.OnInput(Span(c.bytes));
    EXPECT_EQ(step.event, Event::kLost);
    EXPECT_EQ(step.close, Close::kGraceful);
    const wire::FpduDecoded frame = wire::DecodeFpdu(Span(step.send), true);
    wire::Segment segment;
    ASSERT_EQ(frame.verdict, wire::Verdict::kComplete);
    ASSERT_FALSE(wire::DecodeSegment(frame.ulpdu, &segment));
    EXPECT_EQ(wire::DecodeTerminate(segment.payload, wire::TerminateLayout::kRfc)->fault, c.fault);
  }
}

TEST(PassiveHandshake, AnyByteMutationOfTheConfirmationHasADefinedVerdict) {
  const Bytes good = RtrWriteFrame(true);
  for (std::size_t at = 0; at < good.size(); ++at) {
    for (unsigned value = 0; value < 256; ++value) {
      Bytes bad = good;
      bad[at] = static_cast<std::uint8_t>(value);
      PassiveHandshake passive = AwaitingRtr(PortMode::kSeparate);
      const HandshakeStep step = passive.OnInput(Span(bad));
      if (value == good[at]) {
        ASSERT_EQ(step.event, Event::kEstablished);
      } else if (step.event == Event::kEstablished) {
        ASSERT_EQ(step.consumed, 0u) << at << " " << value;  // Left for the queue pair, which checks the CRC.
      }
    }
  }
}

ActiveHandshake AwaitingReply(ReadLimits offer = {16, 16}) {
  ActiveHandshake active(Config(PortMode::kTcp), 50001, 7000, offer, {});
  active.Start();
  return active;
}

TEST(ActiveHandshake, RefusesUnsupportedReplies) {
  wire::MpaFrame markers = Foreign(wire::MpaKind::kReply, 2, true, {true, false, true, false, 1, 1});
  markers.markers = true;
  for (const Bytes& bytes :
       {Frame(markers), Frame(Foreign(wire::MpaKind::kRequest, 2, true)),
        Join(Frame(Foreign(wire::MpaKind::kReply, 2, true, {true, false, true, false, 1, 1})), {0})}) {
    ActiveHandshake active = AwaitingReply();
    const HandshakeStep step = active.OnInput(Span(bytes));
    EXPECT_EQ(step.event, Event::kFailed);
    EXPECT_EQ(step.status.code(), StatusCode::kConnectionRefused);
    EXPECT_EQ(step.status.detail(), Detail::kProtocol);
  }
}

TEST(ActiveHandshake, ReplyWithoutACommonRtrIsTerminated) {
  ActiveHandshake active = AwaitingReply();
  const HandshakeStep step =
      active.OnInput(Span(Frame(Foreign(wire::MpaKind::kReply, 2, true, {true, true, false, false, 1, 1}))));
  EXPECT_EQ(step.event, Event::kFailed);
  EXPECT_EQ(step.status.code(), StatusCode::kConnectionRefused);
  EXPECT_EQ(step.send, TerminateFrame(wire::fault::kNoCommonRtr, true));
}

TEST(ActiveHandshake, PeersWithoutPeerToPeerGetNoConfirmationFrame) {
  for (const wire::MpaFrame& frame :
       {Foreign(wire::MpaKind::kReply, 2, true, {false, false, false, false, 1, 1}),
        Foreign(wire::MpaKind::kReply, 2, false), Foreign(wire::MpaKind::kReply, 1, false)}) {
    ActiveHandshake active = AwaitingReply({4, 4});
    const HandshakeStep reply = active.OnInput(Span(Frame(frame)));
    ASSERT_EQ(reply.event, Event::kReply);
    EXPECT_EQ(reply.limits_known, frame.enhanced);
    const HandshakeStep confirmed = active.Confirm();
    EXPECT_EQ(confirmed.event, Event::kEstablished);
    EXPECT_TRUE(confirmed.send.empty());
    if (!frame.enhanced) {
      EXPECT_EQ(active.agreement().limits, (ReadLimits{4, 4}));
    }
  }
}

TEST(ActiveHandshake, ReadAsConfirmationWaitsForItsResponse) {
  ActiveHandshake active = AwaitingReply();
  active.OnInput(Span(Frame(Foreign(wire::MpaKind::kReply, 2, true, {true, false, false, true, 1, 1}))));
  ActiveHandshake other = active;
  const HandshakeStep confirmed = active.Confirm();
  EXPECT_EQ(confirmed.event, Event::kNone);
  EXPECT_EQ(confirmed.send, RtrReadFrame(true));
  EXPECT_EQ(active.deadline(), Deadline::kAnswer);
  const Bytes response = ReadResponseFrame(0, 0, true);
  for (std::size_t cut = 0; cut < response.size(); ++cut) {
    EXPECT_EQ(active.OnInput(Span(response).first(cut)).event, Event::kNone);
  }
  const HandshakeStep done = active.OnInput(Span(Join(response, {1, 2, 3})));
  EXPECT_EQ(done.event, Event::kEstablished);
  EXPECT_EQ(done.consumed, response.size());
  EXPECT_EQ(active.agreement().read_msn_out, 2u);
  other.Confirm();
  EXPECT_EQ(other.OnInput(Span(SendFrame(kAsk, 1, true))).event, Event::kLost);
  // With a read limit of 0 a Read is neither offered nor accepted as RTR.
  ActiveHandshake none(Config(PortMode::kTcp), 1, 2, {16, 0}, {});
  EXPECT_FALSE(wire::DecodeMpa(wire::MpaKind::kRequest, Span(none.Start().send)).frame.words.rtr_read);
}

TEST(ActiveHandshake, LimitsFollowTheTable) {
  const auto limits = [](ReadLimits offer, std::uint16_t ird, std::uint16_t ord) {
    ActiveHandshake active = AwaitingReply(offer);
    const HandshakeStep step = active.OnInput(
        Span(Frame(Foreign(wire::MpaKind::kReply, 2, true, {true, false, true, false, ird, ord}))));
    return std::pair(step.event, active.agreement().limits);
  };
  EXPECT_EQ(limits({16, 16}, 0, 0), std::pair(Event::kReply, (ReadLimits{0, 0})));
  EXPECT_EQ(limits({1, 128}, 32, 1), std::pair(Event::kReply, (ReadLimits{1, 32})));
  EXPECT_EQ(limits({4, 4}, 99, 128),
            std::pair(Event::kReply, (ReadLimits{128, 4})));  // Raised, because the peer requires it.
  EXPECT_EQ(limits({4, 4}, 1, 129).first, Event::kFailed);
  ActiveHandshake active = AwaitingReply();
  const HandshakeStep step = active.OnInput(
      Span(Frame(Foreign(wire::MpaKind::kReply, 2, true, {true, false, true, false, 1, 200}))));
  EXPECT_EQ(step.status.code(), StatusCode::kInsufficientResources);
  EXPECT_EQ(step.send, TerminateFrame(wire::fault::kInsufficientIrd, true));
  ActiveHandshake unknown = AwaitingReply();
  EXPECT_FALSE(unknown
                   .OnInput(Span(Frame(
                       Foreign(wire::MpaKind::kReply, 2, true, {true, false, true, false, 16383, 16383}))))
                   .limits_known);
}

TEST(ActiveHandshake, OnlyAnNdbrokerAnswersInSeparateMode) {
  const wire::MpaFrame frame = Foreign(wire::MpaKind::kReply, 2, true, {true, false, true, false, 1, 1});
  const auto reply = [&](std::uint16_t source, std::uint16_t destination) {
    ActiveHandshake active(Config(PortMode::kSeparate), 50001, 7000, {1, 1}, {});
    active.Start();
    return active.OnInput(Span(handshake_internal::EncodeStartFrame(frame, PortMode::kSeparate, source,
                                                                    destination, Detail::kNone, {})));
  };
  EXPECT_EQ(reply(7000, 50001).event, Event::kReply);
  EXPECT_EQ(reply(7001, 50001).event, Event::kFailed);
  EXPECT_EQ(reply(7000, 50002).event, Event::kFailed);
  ActiveHandshake active(Config(PortMode::kSeparate), 50001, 7000, {1, 1}, {});
  active.Start();
  EXPECT_EQ(active.OnInput(Span(Frame(frame, Bytes(12, 0)))).event, Event::kFailed);
}

TEST(ActiveHandshake, DataBetweenReplyAndConfirmationBreaksTheProtocol) {
  Pair pair(PortMode::kSeparate);
  pair.Request();
  pair.Accept();
  const HandshakeStep step = pair.active.OnInput(Span(Bytes{0}));
  EXPECT_EQ(step.event, Event::kLost);
  EXPECT_EQ(step.status.code(), StatusCode::kConnectionAborted);
}

}  // namespace
}  // namespace nd::provider::soft
