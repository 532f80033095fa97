// SPDX-License-Identifier: Apache-2.0
// d.9 Disconnect, notify, flush.
#include "tests/conformance/world.h"

namespace nd::conformance {
namespace {

ND_GROUP(D09);

// Checks that `cq` has CANCELED completions for these contexts, in this order, and no others.
void ExpectCanceled(const Cq& cq, std::initializer_list<std::uint64_t> contexts) {
  for (const std::uint64_t context : contexts) {
    const Work work = cq.Next();
    EXPECT_ND(work, CANCELED);
    EXPECT_EQ(work.context, context);
  }
  EXPECT_TRUE(cq.Poll().empty());
}

TEST_P(D09, ND_174_DisconnectBothSides) {
  const Link up = w.Up();
  const Outcome notify = up.p.NotifyDisconnect();
  EXPECT_PENDING(notify);
  const Outcome bye = up.a.Disconnect();
  EXPECT_ND(notify, SUCCESS);
  const Outcome answer = up.p.Disconnect();
  EXPECT_ND(answer.inline_status(), SUCCESS);
  EXPECT_ND(bye, SUCCESS);
}

TEST_P(D09, ND_175_OwnRequestsAreCanceledInOrder) {
  const Cq receives = A.CreateCq(), sends = A.CreateCq();
  const Link up = w.Up({.aq = A.CreateQp({.cq = sends, .receive_cq = receives})});
  for (std::uint64_t context = 1; context <= 3; ++context) EXPECT_ND(up.aq.Receive(context), SUCCESS);
  // P has posted no receives, so these Sends wait.
  for (std::uint64_t context = 11; context <= 13; ++context) EXPECT_ND(up.aq.Send(context), SUCCESS);
  if (!w.one_phase()) {  // A Send of siw completes once it is sent.
    EXPECT_TRUE(sends.Poll().empty());
  }
  EXPECT_ND(up.a.Disconnect(), SUCCESS);
  // The completions are present when Disconnect completes, without a wait.
  const std::vector<Work> received = receives.Poll(), sent = sends.Poll();
  ASSERT_EQ(received.size(), 3u);
  for (std::uint64_t i = 0; i < 3; ++i) {
    EXPECT_ND(received[i], CANCELED);
    EXPECT_EQ(received[i].context, 1 + i);
  }
  if (w.one_phase()) return;
  ASSERT_EQ(sent.size(), 3u);
  // Disconnect of soft first sends what was posted before it. The oldest Send finds no receive within its
  // time. A device cancels all at once.
  for (std::uint64_t i = 0; i < 3; ++i) {
    EXPECT_ND(sent[i], i == 0 && !w.verbs() ? IO_TIMEOUT : CANCELED);
    EXPECT_EQ(sent[i].context, 11 + i);
  }
}

TEST_P(D09, ND_176_PeersReceivesStay) {
  const Link up = w.Up({.posted_receives = 3});
  const Outcome notify = up.p.NotifyDisconnect();
  const Outcome bye = up.a.Disconnect();
  EXPECT_ND(notify, SUCCESS);
  if (!w.one_phase()) {  // In one-phase mode the kernel cancels them at the disconnect.
    EXPECT_TRUE(up.pq.cq.Poll().empty());
  }
  EXPECT_ND(up.p.Disconnect(), SUCCESS);
  ExpectCanceled(up.pq.cq, {1, 2, 3});
  EXPECT_ND(bye, SUCCESS);
}

TEST_P(D09, ND_177_NotifyBeforeUp) {
  ND_NEEDS_TWO_PHASES("177");
  EXPECT_ND(A.CreateConnector().NotifyDisconnect(), CONNECTION_INVALID);
  EXPECT_ND(w.BoundA().NotifyDisconnect(), CONNECTION_INVALID);
  Link link = w.Incoming();
  EXPECT_ND(link.a.NotifyDisconnect(), CONNECTION_INVALID);
  EXPECT_ND(link.p.NotifyDisconnect(), CONNECTION_INVALID);
  w.Reply(link);
  EXPECT_ND(link.a.NotifyDisconnect(), CONNECTION_INVALID);
  EXPECT_ND(link.p.NotifyDisconnect(), CONNECTION_INVALID);
}

TEST_P(D09, ND_178_NotifyAfterPeerClosed) {
  const Link up = w.Up();
  const Outcome first = up.p.NotifyDisconnect();
  const Outcome bye = up.a.Disconnect();
  EXPECT_ND(first, SUCCESS);
  EXPECT_ND(up.p.NotifyDisconnect().inline_status(), SUCCESS);
  EXPECT_ND(up.p.Disconnect(), SUCCESS);
  EXPECT_ND(bye, SUCCESS);
}

TEST_P(D09, ND_179_CanceledNotifyKeepsLink) {
  const Link up = w.Up();
  const Outcome first = up.p.NotifyDisconnect();
  EXPECT_PENDING(first);
  EXPECT_ND(up.p.Cancel(), SUCCESS);
  EXPECT_ND(first, CANCELED);
  w.ExpectTraffic(up);
  EXPECT_PENDING(up.p.NotifyDisconnect());
}

TEST_P(D09, ND_180_LocalDisconnectEndsNotify) {
  const Link up = w.Up();
  const Outcome notify = up.a.NotifyDisconnect();
  EXPECT_PENDING(notify);
  EXPECT_ND(up.a.Disconnect(), SUCCESS);
  EXPECT_ND(notify, CONNECTION_DISCONNECTED);
}

TEST_P(D09Own, ND_176_PeersReceivesAreFlushedCompat) {
  World w(GetParam(), {.sections = {{"compat", "flush-on-peer-disconnect = true"}}});
  const Link up = w.Up({.posted_receives = 3});
  const Outcome notify = up.p.NotifyDisconnect();
  const Outcome bye = up.a.Disconnect();
  EXPECT_ND(notify, SUCCESS);
  ExpectCanceled(up.pq.cq, {1, 2, 3});
  EXPECT_ND(up.p.Disconnect(), SUCCESS);
  EXPECT_ND(bye, SUCCESS);
}

TEST_P(D09Own, ND_180_LocalDisconnectEndsNotifyCompat) {
  World w(GetParam(), {.sections = {{"compat", "notify-success-on-local-disconnect = true"}}});
  const Link up = w.Up();
  const Outcome notify = up.a.NotifyDisconnect();
  EXPECT_ND(up.a.Disconnect(), SUCCESS);
  EXPECT_ND(notify, SUCCESS);
}

TEST_P(D09, ND_181_TwoNotifications) {
  const Link up = w.Up();
  const Outcome one = up.p.NotifyDisconnect(), two = up.p.NotifyDisconnect();
  const Outcome bye = up.a.Disconnect();
  EXPECT_ND(one, SUCCESS);
  EXPECT_ND(two, SUCCESS);
  EXPECT_ND(up.p.Disconnect(), SUCCESS);
  EXPECT_ND(bye, SUCCESS);
}

TEST_P(D09, ND_182_DisconnectBeforeUp) {
  ND_NEEDS_TWO_PHASES("182");
  EXPECT_ND(A.CreateConnector().Disconnect(), CONNECTION_INVALID);
  EXPECT_ND(w.BoundA().Disconnect(), CONNECTION_INVALID);
  Link link = w.Incoming();
  EXPECT_ND(link.a.Disconnect(), CONNECTION_INVALID);
  EXPECT_ND(link.p.Disconnect(), CONNECTION_INVALID);
  w.Reply(link);
  EXPECT_ND(link.a.Disconnect(), CONNECTION_INVALID);
  EXPECT_ND(link.p.Disconnect(), CONNECTION_INVALID);
  w.Complete(link);
  w.ExpectTraffic(link);
}

TEST_P(D09, ND_183_DisconnectTwice) {
  const Link up = w.Up();
  w.Silence(true);  // The first Disconnect must wait.
  const Outcome first = up.a.Disconnect();
  const Outcome second = up.a.Disconnect();
  w.Silence(false);
  EXPECT_ND(second, CONNECTION_INVALID);
  EXPECT_ND(first, SUCCESS);
  EXPECT_ND(up.a.Disconnect(), CONNECTION_INVALID);
}

TEST_P(D09, ND_184_CrossingDisconnects) {
  const std::string at = " ip=" + w.p().IpToString() + " port=7000";
  const std::uint32_t server =
      P.StartProgram("accept_loop", "broker=" + w.broker_p().directory() + at + " mode=cross threads=1");
  ASSERT_TRUE(Eventually([&] { return w.broker_p().Count().listeners == 1; }));
  const int rounds = Rounds(300, 1000, 30);
  const std::string client =
      A.Program("connect_loop", "broker=" + w.broker_a().directory() + at + " from=" + w.a().IpToString() +
                                    " fromport=0 mode=cross rounds=" + std::to_string(rounds));
  EXPECT_EQ(client.substr(0, 3), "ok ") << client;
  // In one-phase mode a disconnect may arrive before this side has completed.
  EXPECT_TRUE(w.one_phase() || client.find(" aborted=0 ") != std::string::npos) << client;
  const std::string served = P.JoinProgram(server, milliseconds(10'000));
  const std::string n = std::to_string(rounds);
  EXPECT_EQ(served, "ok accepted=" + n + " aborted=0 disconnected=" + n + " retried=0");
}

TEST_P(D09Own, ND_185_DisconnectWithoutAnswer) {
  // On one host the peer process is stopped, so that it does not answer.
  const WorldOptions options{
      .sections = {{"timeouts", "disconnect = \"500ms\""}},
      .wired = GetParam() == Transport::kVerbs
                   ? TheSite().wired()
                   : GetParam() == Transport::kIwarp && HasNetworkNamespaces() && InPrivateNetwork()};
  World w(GetParam(), options);
  if (w.one_phase())
    ND_EXCEPTED() << "EXCEPTED 185: the kernel's iWARP closes at once, no answer is waited for";
  ASSERT_EQ(w.error(), "");
  const Link up = w.Up({.a = w.Bound(w.A(), w.a(6000)), .posted_receives = 2});
  if (options.wired) {
    w.wire().Cut();
  } else {
    w.P().process().Pause();
  }
  EXPECT_ND(up.a.Disconnect(), IO_TIMEOUT);
  ExpectCanceled(up.aq.cq, {1, 2});
  EXPECT_ND(up.a.Close(), SUCCESS);
  EXPECT_ND(w.A().CreateConnector().Bind(w.a(6000)), SUCCESS);
  if (options.wired) {
    w.wire().Mend();
  } else {
    w.P().process().Resume();
  }
}

TEST_P(D09, ND_186_QueuePairReleased) {
  const Cq cq = A.CreateCq();
  const Link up = w.Up({.aq = A.CreateQp({.cq = cq}), .posted_receives = 2});
  const Outcome notify = up.p.NotifyDisconnect();
  EXPECT_ND(up.aq.Close(), SUCCESS);
  EXPECT_ND(notify, SUCCESS);
  ExpectCanceled(cq, {1, 2});
}

// The queue pair is released while Disconnect waits for the peer's answer: Disconnect ends CANCELED.
TEST_P(D09, ND_186_QueuePairReleasedDuringDisconnect) {
  if (w.one_phase())
    ND_EXCEPTED() << "EXCEPTED 186: the kernel's iWARP closes at once, no answer is waited for";
  const Link up = w.Up();
  w.Silence(true);
  const Outcome bye = up.a.Disconnect();
  EXPECT_PENDING(bye);
  const Outcome closing = up.aq.Close();
  EXPECT_ND(bye, CANCELED);
  w.Silence(false);
  EXPECT_ND(closing, SUCCESS);
  EXPECT_ND(up.a.Disconnect(), CONNECTION_INVALID);
}

TEST_P(D09, ND_187_ConnectorClosed) {
  const Link up = w.Up({.posted_receives = 2});
  const Outcome notify = up.p.NotifyDisconnect();
  EXPECT_ND(up.a.Close(), SUCCESS);
  EXPECT_ND(notify, SUCCESS);
  ExpectCanceled(up.aq.cq, {1, 2});
}

TEST_P(D09, ND_188_QueuePairCannotBeReused) {
  const Link up = w.Up();
  EXPECT_ND(up.a.Disconnect(), SUCCESS);
  EXPECT_ND(w.BoundA().Connect(up.aq, up.to), INVALID_DEVICE_STATE);
}

TEST_P(D09, ND_189_ReconnectLoop) {
  const std::string at = " ip=" + w.p().IpToString() + " port=7000";
  const std::uint32_t server =
      P.StartProgram("accept_loop", "broker=" + w.broker_p().directory() + at + " mode=wait threads=1");
  ASSERT_TRUE(Eventually([&] { return w.broker_p().Count().listeners == 1; }));
  const int rounds = Rounds(300, 1000, 30);
  const std::string client =
      A.Program("connect_loop", "broker=" + w.broker_a().directory() + at + " from=" + w.a().IpToString() +
                                    " fromport=0 mode=wait rounds=" + std::to_string(rounds));
  const std::string n = std::to_string(rounds);
  EXPECT_EQ(client, "ok accepted=" + n + " aborted=0 disconnected=" + n + " retried=0");
  EXPECT_EQ(P.JoinProgram(server, milliseconds(10'000)).substr(0, 3), "ok ");
}

TEST_P(D09, ND_190_FlushNeverConnected) {
  const Qp qp = A.CreateQp();
  EXPECT_ND(qp.cq.Notify(NotifyType::kAny), SUCCESS);
  EXPECT_ND(qp.Receive(1), SUCCESS);
  EXPECT_ND(qp.Receive(2), SUCCESS);
  EXPECT_FALSE(qp.cq.Notified(milliseconds(0)));
  EXPECT_ND(qp.Flush(), SUCCESS);
  EXPECT_TRUE(qp.cq.Notified(milliseconds(5000)));
  qp.cq.ConsumeNotification();
  EXPECT_FALSE(qp.cq.Notified(milliseconds(0)));
  ExpectCanceled(qp.cq, {1, 2});
}

TEST_P(D09, ND_191_FlushOnSharedQueue) {
  const Cq cq = A.CreateCq();
  const Qp one = A.CreateQp({.cq = cq, .context = 1}), two = A.CreateQp({.cq = cq, .context = 2});
  EXPECT_ND(one.Receive(1), SUCCESS);
  EXPECT_ND(two.Receive(2), SUCCESS);
  EXPECT_ND(one.Receive(3), SUCCESS);
  EXPECT_ND(one.Flush(), SUCCESS);
  ExpectCanceled(cq, {1, 3});
  EXPECT_ND(two.Flush(), SUCCESS);
  const Work work = cq.Next();
  EXPECT_EQ(work.context, 2u);
  EXPECT_EQ(work.qp, 2u);
}

TEST_P(D09, ND_192_FlushThenDisconnect) {
  const Link up = w.Up({.posted_receives = 3});
  EXPECT_ND(up.aq.Flush(), SUCCESS);
  EXPECT_ND(up.a.Disconnect(), SUCCESS);
  ExpectCanceled(up.aq.cq, {1, 2, 3});
}

TEST_P(D09, ND_193_DisconnectEvent) {
  Link link = w.Incoming();
  link.a.SetDisconnectCallback();
  link.p.SetDisconnectCallback();
  w.Reply(link);
  w.Complete(link);
  const Outcome notify = link.p.NotifyDisconnect();
  const Outcome bye = link.a.Disconnect();
  EXPECT_ND(notify, SUCCESS);
  EXPECT_TRUE(Eventually([&] { return !link.p.DisconnectEvents().empty(); }));
  EXPECT_ND(link.p.Disconnect(), SUCCESS);
  EXPECT_ND(bye, SUCCESS);
  EXPECT_ND(link.p.Close(), SUCCESS);
  EXPECT_EQ(link.p.DisconnectEvents().size(), 1u);
  EXPECT_TRUE(link.a.DisconnectEvents().empty());
}

TEST_P(D09, ND_194_DisconnectReason) {
  {
    Link link = w.Incoming();
    link.p.SetDisconnectCallback();
    w.Reply(link);
    w.Complete(link);
    EXPECT_ND(link.a.Disconnect(), SUCCESS);
    EXPECT_TRUE(Eventually([&] { return link.p.DisconnectEvents().size() == 1; }));
    EXPECT_EQ(link.p.disconnect_reason(), DisconnectReason::kPeerDisconnected);
    EXPECT_ND(link.p.Close(), SUCCESS);
    EXPECT_ND(link.l.Close(), SUCCESS);
  }
  Link link = w.Incoming();
  link.p.SetDisconnectCallback();
  w.Reply(link);
  w.Complete(link);
  A.Kill();
  EXPECT_TRUE(Eventually([&] { return link.p.DisconnectEvents().size() == 1; }));
  // On devices the broker of the peer disconnects for it, and the wire has only one reason.
  EXPECT_EQ(link.p.disconnect_reason(),
            w.verbs() ? DisconnectReason::kPeerDisconnected : DisconnectReason::kPeerProcessDied);
}

TEST_P(D09, ND_195_SendAfterDisconnect) {
  const Link up = w.Up();
  EXPECT_ND(up.a.Disconnect(), SUCCESS);
  EXPECT_ND(up.aq.Send(1), CONNECTION_INVALID);
}

TEST_P(D09, ND_196_DisconnectCrossesEstablishment) {
  const Link link = w.Replied();
  P.process().Pause();
  EXPECT_ND(link.a.CompleteConnect(), SUCCESS);
  const Outcome bye = link.a.Disconnect();
  P.process().Resume();
  EXPECT_ND(link.accept, SUCCESS);
  EXPECT_ND(link.p.NotifyDisconnect(), SUCCESS);
  EXPECT_ND(link.p.NotifyDisconnect().inline_status(), SUCCESS);
  EXPECT_ND(bye, SUCCESS);
}

TEST_P(D09Own, ND_197_TransportError) {
  ND_NEEDS_WIRE("197");
  World w(GetParam(), {.wired = true});
  ASSERT_EQ(w.error(), "");
  const Link up = w.Up();
  const Outcome notify = up.a.NotifyDisconnect();
  w.wire().Cut();
  EXPECT_ND(up.aq.Send(1), SUCCESS);
  if (w.verbs()) {  // A device reports a failure only through completions.
    EXPECT_ND(up.aq.cq.Next(milliseconds(60'000)), IO_TIMEOUT);
  }
  EXPECT_ND(notify.Wait(milliseconds(60'000)), SUCCESS);
  EXPECT_EQ(up.a.disconnect_reason(), DisconnectReason::kTransportRetryExceeded);
}

}  // namespace
}  // namespace nd::conformance
