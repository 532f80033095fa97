// SPDX-License-Identifier: Apache-2.0
// Both sides of a handshake against each other.
#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "provider/soft/cm/handshake_test_util.h"

namespace nd::provider::soft {
namespace {

using namespace handshake_test;

class BothModes : public ::testing::TestWithParam<PortMode> {};

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

// Only separate mode has flags for it.
TEST_P(BothModes, ExtensionsNeedBothApplications) {
  for (const unsigned who : {0u, 1u, 2u, 3u}) {
    HandshakeConfig config = Config(GetParam());
    config.extensions = (who & 1) != 0;
    ActiveHandshake active(config, 50001, 7000, {1, 1}, kAsk);
    PassiveHandshake passive(Config(GetParam()));
    ASSERT_EQ(passive.OnInput(Span(active.Start().send)).event, Event::kRequest);
    const HandshakeStep reply = active.OnInput(Span(passive.Accept({1, 1}, kAnswer, (who & 2) != 0).send));
    ASSERT_EQ(reply.event, Event::kReply);
    const bool both = who == 3 && GetParam() == PortMode::kSeparate;
    EXPECT_EQ(active.agreement().extensions, both) << who;
    EXPECT_EQ(passive.agreement().extensions, both) << who;
  }
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

INSTANTIATE_TEST_SUITE_P(Handshake, BothModes, ::testing::Values(PortMode::kSeparate, PortMode::kTcp));

}  // namespace
}  // namespace nd::provider::soft
