// SPDX-License-Identifier: Apache-2.0
// d.2 Listener, backlog, pause.
#include "tests/conformance/world.h"

namespace nd::conformance {
namespace {

ND_GROUP(D02);

// Starts `count` connects of A to port 7000 of P, each with its own connector and queue pair.
struct Attempt {
  Connector c;
  Qp qp;
  Outcome outcome;
};
Attempt Try(World& w, std::uint16_t port = 7000, const std::string& data = {}) {
  Attempt attempt;
  attempt.c = w.BoundA();
  attempt.qp = w.A().CreateQp();
  attempt.outcome = attempt.c.Connect(attempt.qp, w.p(port), {.data = data});
  return attempt;
}

// Waits until the listener shows `count` waiting requests.
::testing::AssertionResult Waiting(World& w, std::uint64_t count) {
  std::uint64_t seen = 0;
  const bool there = Eventually([&] {
    const Flat list = w.broker_p().Admin("ListListeners");
    seen = 0;
    for (std::size_t i = 0; i < list.Count("items"); ++i) {
      seen += list.Number("items." + std::to_string(i) + ".backlog_used");
    }
    return seen == count;
  });
  if (there) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << seen << " requests wait, expected " << count;
}

TEST_P(D02, ND_031_ListenBeforeBind) {
  EXPECT_ND(P.CreateListener().Listen(), INVALID_DEVICE_STATE);
}

TEST_P(D02, ND_032_LocalAddressOfListener) {
  const Listener l = P.CreateListener();
  EXPECT_ND(l.GetLocalAddress(), INVALID_DEVICE_STATE);
  EXPECT_ND(l.Bind(w.p()), SUCCESS);
  EXPECT_ND(l.GetLocalAddress(), INVALID_DEVICE_STATE);
  EXPECT_ND(l.Listen(), SUCCESS);
  EXPECT_GE(l.GetLocalAddress().value().port(), 49152);
}

TEST_P(D02, ND_033_LocalAddressIntoBuffers) {
  const Listener l = w.Listening();
  Object::Raw raw = l.GetAddressRaw(false, 0, true);
  EXPECT_ND(raw.status, BUFFER_OVERFLOW);
  EXPECT_EQ(raw.length, kSockaddrIn);
  raw = l.GetAddressRaw(false, kSockaddrIn - 1);
  EXPECT_ND(raw.status, BUFFER_OVERFLOW);
  EXPECT_EQ(raw.length, kSockaddrIn);
  EXPECT_TRUE(raw.untouched());
  raw = l.GetAddressRaw(false, 100);
  EXPECT_ND(raw.status, SUCCESS);
  EXPECT_EQ(raw.length, kSockaddrIn);
  EXPECT_TRUE(raw.untouched(kSockaddrIn));
}

TEST_P(D02, ND_034_ListenTwice) {
  EXPECT_ND(w.Listening().Listen(), INVALID_DEVICE_STATE);
}

TEST_P(D02, ND_035_RequestFromListenerThatDoesNotListen) {
  const Listener l = P.CreateListener();
  EXPECT_ND(l.Bind(w.p(7000)), SUCCESS);
  EXPECT_ND(l.GetConnectionRequest(P.CreateConnector()), INVALID_DEVICE_STATE);
}

TEST_P(D02, ND_036_RequestIntoUsedConnector) {
  const Link up = w.Up();
  EXPECT_ND(up.l.GetConnectionRequest(w.Bound(P, w.p(7001))), CONNECTION_ACTIVE);
  EXPECT_ND(up.l.GetConnectionRequest(up.p), CONNECTION_ACTIVE);
}

TEST_P(D02, ND_037_RequestFirstThenConnect) {
  const Listener l = w.Listening();
  const Connector c = P.CreateConnector();
  const Outcome request = l.GetConnectionRequest(c);
  EXPECT_PENDING(request);
  Try(w);
  EXPECT_ND(request, SUCCESS);
  EXPECT_ND(c.GetReadLimits().status, SUCCESS);
}

TEST_P(D02, ND_038_ConnectFirstThenRequest) {
  const Listener l = w.Listening();
  Try(w);
  EXPECT_TRUE(Waiting(w, 1));
  const Connector c = P.CreateConnector();
  const Outcome request = l.GetConnectionRequest(c);
  EXPECT_ND(request.inline_status(), SUCCESS, PENDING);
  EXPECT_ND(request, SUCCESS);
}

// The kernel form: the listener hands each request to a callback, and there is nothing to ask for.
TEST_P(D02, ND_038_ConnectEvents) {
  const Listener l = P.NdkListen(w.p(7000));
  ASSERT_ND(l.status(), SUCCESS);
  EXPECT_EQ(l.GetLocalAddress().value(), w.p(7000));
  EXPECT_ND(l.GetConnectionRequest(P.CreateConnector()), INVALID_DEVICE_STATE);
  Link link;
  link.l = l;
  link.to = w.p(7000);
  link.a = w.BoundA();
  link.aq = A.CreateQp();
  link.pq = P.CreateQp();
  link.connect = link.a.Connect(link.aq, link.to, {.data = "first"});
  link.p = l.TakeConnectEvent();
  ASSERT_ND(link.p.status(), SUCCESS);
  EXPECT_PENDING(link.connect);
  EXPECT_EQ(link.p.PrivateData().value(), "first");
  EXPECT_EQ(link.p.GetPeerAddress().value(), link.a.GetLocalAddress().value());
  w.Reply(link);
  w.Complete(link);
  w.ExpectTraffic(link);
  // Each request is one event, in the order of arrival.
  const Connector second = w.BoundA(), third = w.BoundA();
  const Outcome refused = second.Connect(A.CreateQp(), link.to, {.data = "second"});
  const Connector at_second = l.TakeConnectEvent();
  ASSERT_ND(at_second.status(), SUCCESS);
  const Outcome closed = third.Connect(A.CreateQp(), link.to, {.data = "third"});
  const Connector at_third = l.TakeConnectEvent();
  ASSERT_ND(at_third.status(), SUCCESS);
  EXPECT_EQ(at_second.PrivateData().value(), "second");
  EXPECT_EQ(at_third.PrivateData().value(), "third");
  EXPECT_ND(at_second.Reject("no"), SUCCESS);
  EXPECT_ND(refused, CONNECTION_REFUSED);
  EXPECT_ND(at_third.Close(), SUCCESS);
  EXPECT_ND(closed, CONNECTION_REFUSED);
  EXPECT_FALSE(l.TakeConnectEvent(milliseconds(50)).status().ok());
  // While paused there are no events.
  EXPECT_ND(l.ControlConnectEvents(true), SUCCESS);
  const Connector fourth = w.BoundA();
  const Qp qp = A.CreateQp();
  EXPECT_ND(fourth.Connect(qp, link.to), CONNECTION_REFUSED);
  EXPECT_ND(l.ControlConnectEvents(false), SUCCESS);
  const Outcome again = fourth.Connect(w.Again(qp), link.to);
  EXPECT_ND(l.TakeConnectEvent().status(), SUCCESS);
  EXPECT_PENDING(again);
}

TEST_P(D02, ND_039_FiveRequestsThreeConnects) {
  const Listener l = w.Listening();
  std::vector<Outcome> requests;
  for (int i = 0; i < 5; ++i) requests.push_back(l.GetConnectionRequest(P.CreateConnector()));
  for (const Outcome& request : requests) EXPECT_PENDING(request);
  for (int i = 0; i < 3; ++i) Try(w);
  for (int i = 0; i < 3; ++i) EXPECT_ND(requests[static_cast<std::size_t>(i)], SUCCESS);
  EXPECT_PENDING(requests[3]);
  EXPECT_ND(l.Cancel(), SUCCESS);
  EXPECT_ND(requests[3], CANCELED);
  EXPECT_ND(requests[4], CANCELED);
  const std::vector<std::uint32_t> order = P.CompletionLog();
  ASSERT_EQ(order.size(), 5u);
  for (std::size_t i = 0; i < 5; ++i) EXPECT_EQ(order[i], requests[i].op());
}

TEST_P(D02, ND_040_CanceledRequestReturnsConnector) {
  const Listener l = w.Listening();
  const Connector c = P.CreateConnector();
  const Outcome first = l.GetConnectionRequest(c);
  EXPECT_PENDING(first);
  EXPECT_ND(l.Cancel(), SUCCESS);
  EXPECT_ND(first, CANCELED);
  EXPECT_PENDING(l.GetConnectionRequest(c));
}

TEST_P(D02, ND_041_CloseCancelsRequests) {
  const Listener l = w.Listening();
  const Outcome first = l.GetConnectionRequest(P.CreateConnector());
  const Outcome second = l.GetConnectionRequest(P.CreateConnector());
  EXPECT_ND(l.Close(), SUCCESS);
  EXPECT_ND(first, CANCELED);
  EXPECT_ND(second, CANCELED);
}

TEST_P(D02, ND_042_ClosedListenersPort) {
  EXPECT_ND(w.Listening().Close(), SUCCESS);
  EXPECT_ND(Try(w).outcome, CONNECTION_REFUSED);
}

TEST_P(D02, ND_043_NoListener) {
  const Attempt attempt = Try(w);
  EXPECT_ND(attempt.outcome, CONNECTION_REFUSED);
  EXPECT_ND(attempt.c.GetPrivateData(100).status, CONNECTION_INVALID);
  EXPECT_ND(attempt.c.GetLocalAddress(), SUCCESS);
  const Listener l = w.Listening();
  EXPECT_PENDING(attempt.c.Connect(attempt.qp, w.p(7000)));
}

TEST_P(D02, ND_044_BacklogOfTwo) {
  w.Listening(7000, 2);
  const Attempt one = Try(w), two = Try(w);
  EXPECT_TRUE(Waiting(w, 2));
  EXPECT_ND(Try(w).outcome, CONNECTION_REFUSED);
  EXPECT_PENDING(one.outcome);
  EXPECT_PENDING(two.outcome);
}

TEST_P(D02, ND_045_DeliveryFreesSlot) {
  const Listener l = w.Listening(7000, 2);
  Try(w);
  Try(w);
  EXPECT_TRUE(Waiting(w, 2));
  EXPECT_ND(Try(w).outcome, CONNECTION_REFUSED);
  EXPECT_ND(l.GetConnectionRequest(P.CreateConnector()), SUCCESS);
  const Attempt four = Try(w);
  EXPECT_TRUE(Waiting(w, 2));
  EXPECT_PENDING(four.outcome);
}

TEST_P(D02, ND_046_WithdrawalFreesSlot) {
  if (w.verbs())
    ND_EXCEPTED() << "EXCEPTED 046: the kernel tells of a withdrawn request when it is answered (144)";
  w.Listening(7000, 2);
  const Attempt one = Try(w);
  Try(w);
  EXPECT_TRUE(Waiting(w, 2));
  EXPECT_ND(one.c.Cancel(), SUCCESS);
  EXPECT_ND(one.outcome, CANCELED);
  EXPECT_TRUE(Waiting(w, 1));
  const Attempt next = Try(w);
  EXPECT_TRUE(Waiting(w, 2));
  EXPECT_PENDING(next.outcome);
}

TEST_P(D02, ND_047_UnlimitedBacklog) {
  w.Listening(7000, 0);
  std::vector<Attempt> attempts;
  const int count = Rounds(500, 500, 100);
  for (int i = 0; i < count; ++i) attempts.push_back(Try(w));
  EXPECT_TRUE(Waiting(w, static_cast<std::uint64_t>(count)));
  for (const Attempt& attempt : attempts) EXPECT_ND(attempt.outcome.Wait(milliseconds(0)), PENDING);
}

TEST_P(D02Own, ND_048_DaemonsCap) {
  World w(GetParam(), {.sections = {{"core", "max-backlog = 64"}}});
  w.Listening(7000, 100'000);
  std::vector<Attempt> attempts;
  for (int i = 0; i < 64; ++i) attempts.push_back(Try(w));
  EXPECT_TRUE(Waiting(w, 64));
  EXPECT_ND(Try(w).outcome, CONNECTION_REFUSED);
  for (const Attempt& attempt : attempts) EXPECT_ND(attempt.outcome.Wait(milliseconds(0)), PENDING);
}

TEST_P(D02, ND_049_DeliveredRequestsDoNotCount) {
  const Listener l = w.Listening(7000, 1);
  for (int i = 0; i < 5; ++i) {
    const Attempt attempt = Try(w);
    EXPECT_ND(l.GetConnectionRequest(P.CreateConnector()), SUCCESS);
    EXPECT_PENDING(attempt.outcome);
  }
  const Attempt last = Try(w);
  EXPECT_TRUE(Waiting(w, 1));
  EXPECT_PENDING(last.outcome);
}

TEST_P(D02, ND_050_PauseAndResume) {
  const Listener l = w.Listening();
  EXPECT_ND(l.ControlConnectEvents(true), SUCCESS);
  EXPECT_ND(Try(w).outcome, CONNECTION_REFUSED);
  EXPECT_ND(l.ControlConnectEvents(false), SUCCESS);
  const Attempt attempt = Try(w);
  EXPECT_TRUE(Waiting(w, 1));
  EXPECT_PENDING(attempt.outcome);
}

TEST_P(D02, ND_051_PauseKeepsQueuedRequests) {
  Link link = w.Queued();
  EXPECT_TRUE(Waiting(w, 1));
  EXPECT_ND(link.l.ControlConnectEvents(true), SUCCESS);
  w.Deliver(link);
  w.Reply(link);
  w.Complete(link);
  w.ExpectTraffic(link);
}

TEST_P(D02, ND_052_PauseKeepsPort) {
  const Listener l = w.Listening();
  EXPECT_ND(l.ControlConnectEvents(true), SUCCESS);
  EXPECT_ND(P.CreateListener().Bind(w.p(7000)), SHARING_VIOLATION);
}

TEST_P(D02, ND_053_PauseIsStateNotCounter) {
  const Listener l = w.Listening();
  EXPECT_ND(l.ControlConnectEvents(true), SUCCESS);
  EXPECT_ND(l.ControlConnectEvents(true), SUCCESS);
  EXPECT_ND(l.ControlConnectEvents(false), SUCCESS);
  const Attempt attempt = Try(w);
  EXPECT_TRUE(Waiting(w, 1));
  EXPECT_PENDING(attempt.outcome);
}

TEST_P(D02, ND_054_UnspecifiedListenerServesEveryAddress) {
  const Listener l = P.CreateListener();
  EXPECT_ND(l.Bind(World::Ip("0.0.0.0", 7000)), SUCCESS);
  EXPECT_ND(l.Listen(), SUCCESS);
  for (const Address& to : {w.p(7000), w.p_second(7000)}) {
    const Connector a = w.BoundA(), p = P.CreateConnector();
    const Outcome connect = a.Connect(A.CreateQp(), to);
    ASSERT_ND(l.GetConnectionRequest(p), SUCCESS);
    EXPECT_EQ(p.GetLocalAddress().value(), to);
    const Outcome accept = p.Accept(P.CreateQp());
    EXPECT_ND(connect, SUCCESS);
    EXPECT_ND(a.CompleteConnect(), SUCCESS);
    EXPECT_ND(accept, SUCCESS);
    EXPECT_EQ(p.GetLocalAddress().value(), to);
  }
}

TEST_P(D02, ND_055_EachAdapterServesItself) {
  const Object other = P.OpenAdapter(w.other_p());
  ASSERT_ND(other.status(), SUCCESS);
  const Listener any = P.CreateListener(), exact = P.CreateListener(other.id());
  EXPECT_ND(any.Bind(World::Ip("0.0.0.0", 7000)), SUCCESS);
  EXPECT_ND(any.Listen(), SUCCESS);
  EXPECT_ND(exact.Bind(w.p_other(7000)), SUCCESS);
  EXPECT_ND(exact.Listen(), SUCCESS);
  const Outcome here = any.GetConnectionRequest(P.CreateConnector());
  const Connector taken = P.CreateConnector(other.id());
  const Outcome there = exact.GetConnectionRequest(taken);
  const Object other_a = A.OpenAdapter(w.other_a());
  const Connector c = A.CreateConnector(other_a.id());
  EXPECT_ND(c.Bind(w.a_other()), SUCCESS);
  const Outcome connect = c.Connect(A.CreateQp({}, other_a.id()), w.p_other(7000));
  EXPECT_ND(there, SUCCESS);
  EXPECT_PENDING(here);
  EXPECT_PENDING(connect);
  EXPECT_EQ(taken.GetLocalAddress().value(), w.p_other(7000));
}

TEST_P(D02, ND_056_CloseWithLiveConnector) {
  const Link up = w.Up();
  const Outcome closing = up.l.Close();
  EXPECT_PENDING(closing);
  EXPECT_ND(Try(w).outcome, CONNECTION_REFUSED);
  w.ExpectTraffic(up);
  EXPECT_PENDING(closing);
  EXPECT_ND(up.p.Close(), SUCCESS);
  EXPECT_ND(closing, SUCCESS);
}

TEST_P(D02, ND_057_CloseRefusesQueuedRequest) {
  const Link link = w.Queued();
  EXPECT_TRUE(Waiting(w, 1));
  EXPECT_ND(link.l.Close(), SUCCESS);
  EXPECT_ND(link.connect, CONNECTION_REFUSED);
}

TEST_P(D02, ND_058_CloseKeepsDeliveredRequest) {
  Link link = w.Incoming();
  const Outcome closing = link.l.Close();
  EXPECT_PENDING(closing);
  w.Reply(link);
  w.Complete(link);
  w.ExpectTraffic(link);
}

TEST_P(D02, ND_059_FirstComeFirstServed) {
  const Listener l = w.Listening();
  for (const char* data : {"first", "second", "third"}) {
    Try(w, 7000, data);
    EXPECT_TRUE(Waiting(w, data[0] == 'f' ? 1 : data[0] == 's' ? 2 : 3));
  }
  for (const char* data : {"first", "second", "third"}) {
    const Connector c = P.CreateConnector();
    ASSERT_ND(l.GetConnectionRequest(c), SUCCESS);
    EXPECT_EQ(c.PrivateData().value(), data);
  }
}

TEST_P(D02Own, ND_060_QueuedForTenMinutes) {
  World w(GetParam());
  Link link = w.Queued();
  EXPECT_TRUE(Waiting(w, 1));
  for (int minute = 0; minute < 10; ++minute) {
    EXPECT_ND(w.broker_a().SkipTime(std::chrono::minutes(1)), SUCCESS);
    if (!w.local()) {
      EXPECT_ND(w.broker_p().SkipTime(std::chrono::minutes(1)), SUCCESS);
    }
    EXPECT_PENDING(link.connect);
  }
  w.Deliver(link);
  w.Reply(link);
  w.Complete(link);
  w.ExpectTraffic(link);
}

}  // namespace
}  // namespace nd::conformance
