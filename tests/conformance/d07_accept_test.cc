// SPDX-License-Identifier: Apache-2.0
// d.7 Accept, CompleteConnect, Reject.
#include "tests/conformance/world.h"

namespace nd::conformance {
namespace {

ND_GROUP(D07);

TEST_P(D07, ND_132_NormalOrder) {
  const Listener l = w.Listening();
  const Connector a = w.BoundA();
  const Qp aq = A.CreateQp(), pq = P.CreateQp();
  const Outcome connect = a.Connect(aq, w.p(7000));
  EXPECT_PENDING(connect);
  const Connector p = P.CreateConnector();
  EXPECT_ND(l.GetConnectionRequest(p), SUCCESS);
  EXPECT_PENDING(connect);
  const Outcome accept = p.Accept(pq);
  EXPECT_ND(accept.inline_status(), PENDING);
  EXPECT_ND(connect, SUCCESS);
  if (w.one_phase()) {
    EXPECT_ND(accept, SUCCESS);
  } else {
    EXPECT_PENDING(accept);
  }
  EXPECT_ND(a.CompleteConnect(), SUCCESS);
  EXPECT_ND(accept, SUCCESS);
  w.ExpectTraffic(
      {.l = l, .a = a, .p = p, .aq = aq, .pq = pq, .connect = connect, .accept = accept, .to = {}});
}

TEST_P(D07Own, ND_133_AcceptWaitsForComplete) {
  World w(GetParam());
  ND_NEEDS_TWO_PHASES("133");
  Link link = w.Replied();
  for (int minute = 0; minute < 5; ++minute) {
    EXPECT_ND(w.broker_a().SkipTime(std::chrono::minutes(1)), SUCCESS);
    if (!w.local()) {
      EXPECT_ND(w.broker_p().SkipTime(std::chrono::minutes(1)), SUCCESS);
    }
    EXPECT_PENDING(link.accept);
  }
  w.Complete(link);
  w.ExpectTraffic(link);
}

TEST_P(D07, ND_134_CompleteConnectInWrongState) {
  EXPECT_ND(A.CreateConnector().CompleteConnect(), CONNECTION_INVALID);
  EXPECT_ND(w.BoundA().CompleteConnect(), CONNECTION_INVALID);
  Link link = w.Incoming();
  EXPECT_ND(link.a.CompleteConnect(), CONNECTION_INVALID);
  EXPECT_ND(link.p.CompleteConnect(), CONNECTION_INVALID);
  w.Reply(link);
  EXPECT_ND(link.p.CompleteConnect(), CONNECTION_INVALID);
  w.Complete(link);
  EXPECT_ND(link.a.CompleteConnect(), CONNECTION_INVALID);
  EXPECT_ND(link.p.CompleteConnect(), CONNECTION_INVALID);
}

TEST_P(D07, ND_135_CompleteConnectTwice) {
  const Link up = w.Up();
  EXPECT_ND(up.a.CompleteConnect(), CONNECTION_INVALID);
  w.ExpectTraffic(up);
}

// True when the withdrawal of the peer has arrived at the broker of A.
bool Withdrawn(World& w, const Link& link) {
  const Address local = link.a.GetLocalAddress().value();
  return Eventually([&] { return w.StateOf(w.broker_a(), local) == "Dead"; });
}

TEST_P(D07, ND_136_PassiveClosesBeforeComplete) {
  const Link link = w.Replied();
  EXPECT_ND(link.p.Close(), SUCCESS);
  EXPECT_TRUE(Withdrawn(w, link));
  EXPECT_ND(link.a.CompleteConnect(), CONNECTION_ABORTED);
  EXPECT_ND(link.a.Connect(A.CreateQp(), link.to), INVALID_DEVICE_STATE);
}

TEST_P(D07, ND_137_PassiveKilledBeforeComplete) {
  const Link link = w.Replied();
  P.Kill();
  EXPECT_TRUE(Withdrawn(w, link));
  EXPECT_ND(link.a.CompleteConnect(), CONNECTION_ABORTED);
}

TEST_P(D07Own, ND_138_NetworkCutBeforeComplete) {
  ND_NEEDS_WIRE("138");
  World w(GetParam(),
          {.sections = {{"timeouts", "connect = \"1s\"\nkeepalive = \"1s\"\ndisconnect = \"1s\""}},
           .wired = true});
  ASSERT_EQ(w.error(), "");
  const Link link = w.Replied();
  w.wire().Cut();
  const Status complete = link.a.CompleteConnect().Wait(milliseconds(30'000));
  EXPECT_ND(complete, IO_TIMEOUT, SUCCESS);
  if (complete.ok() && !w.verbs()) {  // No data moves on it, and a device does not check the peer.
    EXPECT_ND(link.a.NotifyDisconnect().Wait(milliseconds(60'000)), SUCCESS);
  }
  EXPECT_ND(link.accept.Wait(milliseconds(60'000)), IO_TIMEOUT);
}

TEST_P(D07, ND_139_ActiveKilledBeforeComplete) {
  ND_NEEDS_TWO_PHASES("139");
  const Link link = w.Replied();
  A.Kill();
  EXPECT_ND(link.accept, CONNECTION_ABORTED);
}

TEST_P(D07Own, ND_140_ActiveHostVanishesBeforeComplete) {
  ND_NEEDS_WIRE("140");
  World w(GetParam(),
          {.sections = {{"timeouts", "connect = \"1s\"\nkeepalive = \"1s\"\ndisconnect = \"1s\""}},
           .wired = true});
  ASSERT_EQ(w.error(), "");
  const Link link = w.Replied();
  w.wire().Cut();
  EXPECT_ND(link.accept.Wait(milliseconds(60'000)), IO_TIMEOUT);
}

TEST_P(D07, ND_141_AcceptWithUsedQueuePair) {
  const Link up = w.Up();
  const Link link = w.Incoming({.l = up.l});
  EXPECT_ND(link.p.Accept(up.pq), CONNECTION_ACTIVE);
  EXPECT_ND(link.connect, CONNECTION_REFUSED);
  EXPECT_ND(link.p.Accept(link.pq), CONNECTION_INVALID);
  w.ExpectTraffic(up);
}

TEST_P(D07, ND_142_AcceptWithQueuePairOfAnotherAdapter) {
  const Object other = P.OpenAdapter(w.other_p());
  ASSERT_ND(other.status(), SUCCESS);
  Link link = w.Incoming();
  EXPECT_ND(link.p.Accept(P.CreateQp({}, other.id())), INVALID_PARAMETER_1);
  w.Reply(link);
  w.Complete(link);
}

TEST_P(D07, ND_143_AcceptTwice) {
  ND_NEEDS_TWO_PHASES("143");
  Link link = w.Replied();
  EXPECT_ND(link.p.Accept(P.CreateQp()), CONNECTION_ACTIVE);
  EXPECT_PENDING(link.accept);
  w.Complete(link);
  w.ExpectTraffic(link);
}

// Devices report a withdrawal only when the request is answered.
bool Gone(World& w, const Link& link) {
  if (w.verbs()) return true;
  return Eventually([&] { return w.StateOf(w.broker_p(), link.to) == "Dead"; });
}

// In one-phase mode the connection may be established before its end is noticed.
void ExpectAcceptOfWithdrawn(World& w, const Link& link) {
  const Outcome accept = link.p.Accept(link.pq);
  if (!w.one_phase()) {
    EXPECT_ND(accept, CONNECTION_ABORTED);
    return;
  }
  EXPECT_ND(accept, CONNECTION_ABORTED, SUCCESS);
  if (accept.Wait().ok()) {
    EXPECT_ND(link.p.NotifyDisconnect(), SUCCESS);
  }
}

TEST_P(D07, ND_144_CanceledConnectThenAccept) {
  const Link link = w.Incoming();
  EXPECT_ND(link.a.Cancel(), SUCCESS);
  EXPECT_ND(link.connect, CANCELED);
  EXPECT_TRUE(Gone(w, link));
  ExpectAcceptOfWithdrawn(w, link);
  w.ExpectTraffic(w.Up({.aq = w.Again(link.aq), .l = link.l}));
}

TEST_P(D07, ND_145_CanceledConnectThenReject) {
  const Link link = w.Incoming();
  EXPECT_ND(link.a.Cancel(), SUCCESS);
  EXPECT_TRUE(Gone(w, link));
  if (w.verbs()) {
    EXPECT_ND(link.p.Reject(), SUCCESS);  // The process of the peer has ended.
  } else {
    EXPECT_ND(link.p.Reject(), CONNECTION_ABORTED);
  }
}

TEST_P(D07, ND_146_ReleasedConnectThenAccept) {
  const Link link = w.Incoming();
  link.a.Drop();
  EXPECT_ND(link.connect, CANCELED);
  EXPECT_TRUE(Gone(w, link));
  ExpectAcceptOfWithdrawn(w, link);
}

TEST_P(D07, ND_147_ActiveRejectsReply) {
  ND_NEEDS_TWO_PHASES("147");
  const Link link = w.Replied();
  EXPECT_ND(link.a.Reject("no thanks"), SUCCESS);
  EXPECT_ND(link.accept, CONNECTION_ABORTED);
  EXPECT_EQ(link.p.PrivateData().value(), "no thanks");
}

TEST_P(D07, ND_148_ActiveClosesAfterReply) {
  ND_NEEDS_TWO_PHASES("148");
  const Link link = w.Replied();
  EXPECT_ND(link.a.Close(), SUCCESS);
  EXPECT_ND(link.accept, CONNECTION_ABORTED);
}

TEST_P(D07Own, ND_147_ActiveRejectsReplyCompat) {
  World w(GetParam(), {.sections = {{"compat", "accept-refused-on-reject = true"}}});
  ND_NEEDS_TWO_PHASES("147");
  const Link link = w.Replied();
  EXPECT_ND(link.a.Reject("no thanks"), SUCCESS);
  EXPECT_ND(link.accept, CONNECTION_REFUSED);
  EXPECT_EQ(link.p.PrivateData().value(), "no thanks");
}

TEST_P(D07Own, ND_148_ActiveClosesAfterReplyCompat) {
  World w(GetParam(), {.sections = {{"compat", "accept-refused-on-reject = true"}}});
  ND_NEEDS_TWO_PHASES("148");
  const Link link = w.Replied();
  EXPECT_ND(link.a.Close(), SUCCESS);
  EXPECT_ND(link.accept, CONNECTION_REFUSED);
}

TEST_P(D07, ND_149_PassiveRejects) {
  const Link link = w.Incoming();
  EXPECT_ND(link.p.Reject(), SUCCESS);
  EXPECT_ND(link.connect, CONNECTION_REFUSED);
  EXPECT_ND(link.p.Accept(link.pq), CONNECTION_INVALID);
}

TEST_P(D07, ND_150_PassiveClosesIncoming) {
  const Link link = w.Incoming();
  EXPECT_ND(link.p.Close(), SUCCESS);
  EXPECT_ND(link.connect, CONNECTION_REFUSED);
}

TEST_P(D07, ND_151_RejectInWrongState) {
  Link link = w.Replied();
  EXPECT_ND(link.p.Reject(), INVALID_DEVICE_STATE);
  w.Complete(link);
  EXPECT_ND(link.p.Reject(), INVALID_DEVICE_STATE);
  EXPECT_ND(link.a.Reject(), INVALID_DEVICE_STATE);
  const Link other = w.Incoming({.l = link.l});
  EXPECT_ND(other.p.Reject(), SUCCESS);
  EXPECT_ND(other.p.Reject(), CONNECTION_INVALID);
}

TEST_P(D07, ND_152_RejectUnbound) {
  EXPECT_ND(A.CreateConnector().Reject(), CONNECTION_INVALID);
}

TEST_P(D07, ND_153_QueuePairClosedDuringAccept) {
  ND_NEEDS_TWO_PHASES("153");
  const Link link = w.Replied();
  EXPECT_ND(link.pq.Close(), SUCCESS);
  EXPECT_ND(link.accept, CANCELED);
  EXPECT_TRUE(Withdrawn(w, link));
  EXPECT_ND(link.a.CompleteConnect(), CONNECTION_ABORTED);
}

TEST_P(D07, ND_154_FailedAcceptLosesNoReceive) {
  ND_NEEDS_TWO_PHASES("154");
  const Link link = w.Replied({.posted_receives = 3});
  EXPECT_ND(link.a.Close(), SUCCESS);
  EXPECT_ND(link.accept, CONNECTION_ABORTED);
  EXPECT_ND(link.p.Accept(link.pq), CONNECTION_INVALID);
  EXPECT_ND(link.pq.Flush(), SUCCESS);
  for (std::uint64_t i = 1; i <= 3; ++i) {
    const Work work = link.pq.cq.Next();
    EXPECT_ND(work, CANCELED);
    EXPECT_EQ(work.context, i);
  }
  EXPECT_TRUE(link.pq.cq.Poll().empty());
}

TEST_P(D07, ND_155_DataBeforeAcceptIsSeen) {
  const Link link = w.Replied({.posted_receives = 4});
  EXPECT_ND(link.a.CompleteConnect(), SUCCESS);
  for (std::uint64_t i = 1; i <= 4; ++i) EXPECT_ND(link.aq.Send(10 + i, 0, 100), SUCCESS);
  for (std::uint64_t i = 1; i <= 4; ++i) {
    const Work work = link.pq.cq.Next();
    EXPECT_ND(work, SUCCESS);
    EXPECT_EQ(work.context, i);
  }
  EXPECT_ND(link.accept, SUCCESS);
}

TEST_P(D07, ND_156_PassiveSendsFirst) {
  const Link up = w.Up({.posted_receives = 2});
  EXPECT_ND(up.pq.Send(10, 0, 100), SUCCESS);
  EXPECT_ND(up.aq.cq.Next(), SUCCESS);
  EXPECT_ND(up.aq.Send(11, 0, 100), SUCCESS);
  EXPECT_ND(up.aq.cq.Next(), SUCCESS);
}

TEST_P(D07, ND_157_HeadToHead) {
  const Listener at_p = w.Listening(7000);
  const Listener at_a = A.CreateListener();
  EXPECT_ND(at_a.Bind(w.a(7001)), SUCCESS);
  EXPECT_ND(at_a.Listen(), SUCCESS);
  const Connector from_a = w.BoundA(), from_p = w.Bound(P, w.p());
  const Qp aq = A.CreateQp(), pq = P.CreateQp();
  const Outcome one = from_a.Connect(aq, w.p(7000)), two = from_p.Connect(P.CreateQp(), w.a(7001));
  const Connector to_p = P.CreateConnector(), to_a = A.CreateConnector();
  ASSERT_ND(at_p.GetConnectionRequest(to_p), SUCCESS);
  ASSERT_ND(at_a.GetConnectionRequest(to_a), SUCCESS);
  EXPECT_ND(to_a.Reject(), SUCCESS);
  EXPECT_ND(two, CONNECTION_REFUSED);
  Link link{
      .l = at_p, .a = from_a, .p = to_p, .aq = aq, .pq = pq, .connect = one, .accept = {}, .to = w.p(7000)};
  w.Reply(link);
  w.Complete(link);
  w.ExpectTraffic(link);
}

// Both sides connect from the ports that they listen on and both accept: only one of the two may be up.
TEST_P(D07Own, ND_157_HeadToHeadOnlyOneIsUp) {
  World w(GetParam(), {.sections = {{"compat", "allow-same-owner-bind-sharing = true"}}});
  if (w.verbs()) ND_EXCEPTED() << "EXCEPTED 157: on devices a listener cannot share its port (029)";
  const Listener at_p = w.Listening(7000), at_a = w.A().CreateListener();
  EXPECT_ND(at_a.Bind(w.a(7001)), SUCCESS);
  EXPECT_ND(at_a.Listen(), SUCCESS);
  const Connector from_a = w.Bound(w.A(), w.a(7001)), from_p = w.Bound(w.P(), w.p(7000));
  const Connector to_p = w.P().CreateConnector(), to_a = w.A().CreateConnector();
  const Qp aq = w.A().CreateQp(), pq = w.P().CreateQp();
  const Outcome one = from_a.Connect(aq, w.p(7000)), two = from_p.Connect(w.P().CreateQp(), w.a(7001));
  ASSERT_ND(at_p.GetConnectionRequest(to_p), SUCCESS);
  ASSERT_ND(at_a.GetConnectionRequest(to_a), SUCCESS);
  const Outcome accept_two = to_a.Accept(w.A().CreateQp());
  EXPECT_ND(two, SUCCESS);
  Link link{
      .l = at_p, .a = from_a, .p = to_p, .aq = aq, .pq = pq, .connect = one, .accept = {}, .to = w.p(7000)};
  w.Reply(link);
  w.Complete(link);
  EXPECT_ND(from_p.CompleteConnect(), ADDRESS_ALREADY_EXISTS);
  EXPECT_ND(accept_two, CONNECTION_ABORTED);
  w.ExpectTraffic(link);
}

TEST_P(D07Own, ND_158_AdapterDisabled) {
  World w(GetParam());
  ND_NEEDS_TWO_PHASES("158");
  {
    const Link link = w.Replied();
    EXPECT_ND(w.broker_p().SetAdapter(w.adapter_p(), false), SUCCESS);
    EXPECT_ND(link.accept, DEVICE_REMOVED);
    EXPECT_ND(link.p.Close(), SUCCESS);
    EXPECT_ND(w.broker_p().SetAdapter(w.adapter_p(), true), SUCCESS);
  }
  w.Finish();
  w.Begin();
  const Link link = w.Replied();
  EXPECT_ND(w.broker_a().SetAdapter(w.adapter_a(), false), SUCCESS);
  EXPECT_ND(link.a.CompleteConnect(), DEVICE_REMOVED);
  EXPECT_ND(w.broker_a().SetAdapter(w.adapter_a(), true), SUCCESS);
}

}  // namespace
}  // namespace nd::conformance
