// SPDX-License-Identifier: Apache-2.0
// d.10 Cancel and results.
#include "tests/conformance/world.h"

namespace nd::conformance {
namespace {

ND_GROUP(D10);

TEST_P(D10, ND_198_OrderOfCancels) {
  EXPECT_EQ(A.Program("cancel_order", "broker=" + w.broker_a().directory() + " ip=" + w.a().IpToString() +
                                          " rounds=" + std::to_string(Rounds(200, 1000, 20))),
            "ok");
}

TEST_P(D10, ND_199_CancelConnect) {
  const Link link = w.Queued();
  // The request has reached the peer, wherever it is processed.
  ASSERT_TRUE(
      Eventually([&] { return w.broker_p().Admin("ListListeners").Number("items.0.backlog_used") == 1; }));
  EXPECT_ND(link.a.Cancel(), SUCCESS);
  EXPECT_ND(link.connect.Wait(milliseconds(0)), CANCELED);
  EXPECT_ND(link.a.Connect(link.aq, link.to), INVALID_DEVICE_STATE);
  if (w.verbs()) {  // The request waits until it is answered.
    const Connector withdrawn = P.CreateConnector();
    EXPECT_ND(link.l.GetConnectionRequest(withdrawn), SUCCESS);
    EXPECT_ND(withdrawn.Reject(), SUCCESS);
  }
  w.ExpectTraffic(w.Up({.aq = w.Again(link.aq), .l = link.l}));
}

TEST_P(D10, ND_200_CancelAccept) {
  ND_NEEDS_TWO_PHASES("200");
  const Link link = w.Replied();
  EXPECT_ND(link.p.Cancel(), SUCCESS);
  EXPECT_ND(link.accept, CANCELED);
  const Address local = link.a.GetLocalAddress().value();
  ASSERT_TRUE(Eventually([&] { return w.StateOf(w.broker_a(), local) == "Dead"; }));
  EXPECT_ND(link.a.CompleteConnect(), CONNECTION_ABORTED);
}

TEST_P(D10, ND_201_CancelDisconnect) {
  if (w.one_phase())
    ND_EXCEPTED() << "EXCEPTED 201: the kernel's iWARP closes at once, no answer is waited for";
  const Link up = w.Up({.a = w.Bound(A, w.a(6000)), .posted_receives = 2});
  w.Silence(true);
  const Outcome bye = up.a.Disconnect();
  EXPECT_PENDING(bye);
  EXPECT_ND(up.a.Cancel(), SUCCESS);
  EXPECT_ND(bye, CANCELED);
  w.Silence(false);
  for (int i = 0; i < 2; ++i) EXPECT_ND(up.aq.cq.Next(), CANCELED);
  EXPECT_ND(up.a.Close(), SUCCESS);
  EXPECT_ND(A.CreateConnector().Bind(w.a(6000)), SUCCESS);
}

TEST_P(D10, ND_201_CancelCompleteConnect) {
  // On soft the confirmation is local, so CompleteConnect completes before it can be canceled. The cancel
  // must not change the result.
  Link link = w.Replied({.a = w.Bound(A, w.a(6000))});
  const Outcome complete = link.a.CompleteConnect();
  EXPECT_ND(link.a.Cancel(), SUCCESS);
  if (!w.verbs() || w.one_phase() || complete.Wait().ok()) {
    EXPECT_ND(complete, SUCCESS);
    EXPECT_ND(link.accept, SUCCESS);
    w.ExpectTraffic(link);
  } else {
    EXPECT_ND(complete, CANCELED);
    EXPECT_ND(link.a.CompleteConnect(), CONNECTION_INVALID);
  }
  EXPECT_ND(link.a.Close(), SUCCESS);
  EXPECT_ND(link.aq.Close(), SUCCESS);
  EXPECT_ND(A.CreateConnector().Bind(w.a(6000)), SUCCESS);
}

TEST_P(D10, ND_202_NothingToCancel) {
  EXPECT_ND(A.CreateConnector().Cancel(), SUCCESS);
  EXPECT_ND(w.BoundA().Cancel(), SUCCESS);
  const Link up = w.Up();
  EXPECT_ND(up.a.Cancel(), SUCCESS);
  EXPECT_ND(up.p.Cancel(), SUCCESS);
  EXPECT_ND(up.l.Cancel(), SUCCESS);
  w.ExpectTraffic(up);
}

TEST_P(D10, ND_203_CancelRacesCompletion) {
  const std::string at = " ip=" + w.p().IpToString() + " port=7000";
  const std::uint32_t server =
      P.StartProgram("accept_loop", "broker=" + w.broker_p().directory() + at + " mode=any threads=3");
  ASSERT_TRUE(Eventually([&] { return w.broker_p().Count().listeners == 1; }));
  const std::string from = " from=" + w.a().IpToString() + " fromport=0";
  const std::string client =
      A.Program("race_cancel", "broker=" + w.broker_a().directory() + at + from +
                                   " rounds=" + std::to_string(Rounds(500, 10'000, 50)));
  EXPECT_EQ(client.substr(0, 3), "ok ") << client;
  RecordProperty("outcome", client);
  EXPECT_EQ(
      A.Program("connect_loop", "broker=" + w.broker_a().directory() + at + from + " mode=wait rounds=0")
          .substr(0, 3),
      "ok ");
  const std::string served = P.JoinProgram(server, milliseconds(20'000));
  EXPECT_EQ(served.substr(0, 3), "ok ") << served;
}

TEST_P(D10, ND_204_GetResult) {
  Link link = w.Incoming();
  EXPECT_ND(link.connect.Wait(milliseconds(0)), PENDING);
  link.accept = link.p.Accept(link.pq);
  EXPECT_ND(link.connect, SUCCESS);
  for (int i = 0; i < 3; ++i) EXPECT_ND(link.connect.Wait(milliseconds(0)), SUCCESS);
}

TEST_P(D10, ND_205_ResultsAreIndependent) {
  const Listener l = w.Listening();
  const Outcome one = l.GetConnectionRequest(P.CreateConnector());
  const Outcome two = l.GetConnectionRequest(P.CreateConnector());
  w.BoundA().Connect(A.CreateQp(), w.p(7000));
  EXPECT_ND(one, SUCCESS);
  EXPECT_PENDING(two);
  EXPECT_ND(one.Wait(milliseconds(0)), SUCCESS);
}

TEST_P(D10, ND_206_InlineMeansNoCompletion) {
  const Outcome error = w.BoundA().CompleteConnect();
  EXPECT_ND(error, CONNECTION_INVALID);
  const Link up = w.Up();
  const Outcome notify = up.p.NotifyDisconnect();
  const Outcome bye = up.a.Disconnect();
  EXPECT_ND(notify, SUCCESS);
  const Outcome again = up.p.NotifyDisconnect();
  EXPECT_ND(again.inline_status(), SUCCESS);
  EXPECT_ND(bye, SUCCESS);
  EXPECT_EQ(again.completions(), 0);
  EXPECT_EQ(notify.completions(), 1);
  // Requests that the library always completes through the ring count as PENDING; an inline error does not.
  EXPECT_EQ(error.completions(), error.inline_status().pending() ? 1 : 0);
}

TEST_P(D10, ND_207_SameOperationTwice) {
  RawClient client(w.broker_a().directory());
  ASSERT_EQ(client.error(), "");
  const std::string adapter = client.Do(OpenText(w))["completion.handle"];
  const std::string text = "op_id: 77 create_connector { adapter: " + adapter + " }";
  ASSERT_TRUE(client.Send(text));
  const Flat first = client.Next();
  ASSERT_TRUE(client.Send(text));
  const Flat second = client.Next();
  EXPECT_EQ(first["completion.op_id"], "77");
  EXPECT_EQ(second["completion.op_id"], "77");
  EXPECT_EQ(first["completion.handle"], second["completion.handle"]);
  // While the first operation runs the second one is ignored: there is one completion.
  const std::string c = first["completion.handle"];
  const Listener l = w.Listening();
  std::string pending, canceled = c;
  if (w.verbs()) {  // On devices Connect needs a queue pair of the device; GetConnectionRequest needs none.
    canceled = client.Do("create_listener { adapter: " + adapter + " }")["completion.handle"];
    client.Do("bind { handle: " + canceled + " local " + TextAddress(w.a(7001)) + " }");
    EXPECT_ND(Status(CodeOf(client.Do("listen { listener: " + canceled + " }"))), SUCCESS);
    pending = "op_id: 88 get_connection_request { listener: " + canceled + " connector: " + c + " }";
  } else {
    EXPECT_ND(Status(CodeOf(client.Do("bind { handle: " + c + " local " + TextAddress(w.a()) + " }"))),
              SUCCESS);
    const std::string qp =
        client.Do("create_queue_pair { adapter: " + adapter +
                  " receive_queue_depth: 8 initiator_queue_depth: 8 }")["completion.handle"];
    pending = "op_id: 88 connect { connector: " + c + " queue_pair: " + qp + " remote " +
              TextAddress(w.p(7000)) + " }";
  }
  ASSERT_TRUE(client.Send(pending));
  ASSERT_TRUE(client.Send(pending));
  if (!w.verbs()) {
    ASSERT_ND(l.GetConnectionRequest(P.CreateConnector()), SUCCESS);
    EXPECT_PENDING(l.GetConnectionRequest(P.CreateConnector()));
  }
  ASSERT_TRUE(client.Send("op_id: 89 cancel { handle: " + canceled + " }"));
  int seen = 0;
  for (Flat next = client.Next(); !next.empty(); next = client.Next(milliseconds(200))) {
    if (next["completion.op_id"] == "88") ++seen;
  }
  EXPECT_EQ(seen, 1);
}

TEST_P(D10, ND_208_WaitingInPartsChangesNothing) {
  // Operations have no deadline of their own. A wait that times out does not end them: the broker still has
  // the operation, and its result comes once.
  Link link = w.Queued();
  const Address local = link.a.GetLocalAddress().value();
  for (int i = 0; i < 3; ++i) {
    EXPECT_ND(link.connect.Wait(milliseconds(5)), PENDING);
    EXPECT_EQ(w.StateOf(w.broker_a(), local), "Connecting");
    EXPECT_EQ(link.connect.completions(), 0);
  }
  w.Deliver(link);
  w.Reply(link);
  EXPECT_EQ(link.connect.completions(), 1);
  w.Complete(link);
  w.ExpectTraffic(link);
  EXPECT_EQ(link.connect.completions(), 1);
}

}  // namespace
}  // namespace nd::conformance
