// SPDX-License-Identifier: Apache-2.0
// The side that connects: replies, the ready-to-receive frame, read limits.
#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "provider/soft/cm/handshake_test_util.h"

namespace nd::provider::soft {
namespace {

using namespace handshake_test;

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
