// SPDX-License-Identifier: Apache-2.0
// The side that listens: requests, the answer, the first frame behind it.
#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "provider/soft/cm/handshake_test_util.h"

namespace nd::provider::soft {
namespace {

using namespace handshake_test;

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

}  // namespace
}  // namespace nd::provider::soft
