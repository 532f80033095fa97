// SPDX-License-Identifier: Apache-2.0
// d.12 Broker and several processes: visibility and survival.
#include "base/locate.h"
#include "base/os/self.h"
#include "tests/conformance/intruder.h"
#include "tests/conformance/world.h"

namespace nd::conformance {
namespace {

ND_GROUP(D12);

// The outcome at P when the process of A is killed in each state.
TEST_P(D12, ND_219_KilledActiveClient) {
  for (const char* state : {"bound", "queued", "incoming", "replied", "up", "disconnecting"}) {
    SCOPED_TRACE(state);
    const std::string in = state;
    Actor& a = w.Extra();
    ASSERT_ND(a.Open(), SUCCESS);
    const Listener l = w.Listening();
    const Connector c = w.Bound(a, w.a(6000)), p = P.CreateConnector();
    const Qp aq = a.CreateQp(), pq = P.CreateQp();
    Outcome accept, notify;
    if (in != "bound") {
      const Outcome connect = c.Connect(aq, w.p(7000));
      if (in != "queued") {
        ASSERT_ND(l.GetConnectionRequest(p), SUCCESS);
      }
      if (in == "replied" || in == "up" || in == "disconnecting") {
        accept = p.Accept(pq);
        EXPECT_ND(connect, SUCCESS);
      }
      if (in == "up" || in == "disconnecting") {
        EXPECT_ND(c.CompleteConnect(), SUCCESS);
        EXPECT_ND(accept, SUCCESS);
        notify = p.NotifyDisconnect();
        if (in == "disconnecting") c.Disconnect();
      }
    }
    a.Kill();
    // Devices report a withdrawn request when it is answered (144), and one-phase devices have no state
    // "replied".
    if (in == "incoming" && !w.one_phase()) {
      EXPECT_TRUE(w.verbs() || Eventually([&] { return w.StateOf(w.broker_p(), w.p(7000)) == "Dead"; }));
      EXPECT_ND(p.Accept(pq), CONNECTION_ABORTED);
    }
    if (in == "replied" && !w.one_phase()) {
      EXPECT_ND(accept, CONNECTION_ABORTED);
    }
    if (in == "up" || in == "disconnecting") {
      EXPECT_ND(notify, SUCCESS);
    }
    // Its objects are freed within a second.
    EXPECT_TRUE(Eventually([&] { return A.CreateConnector().Bind(w.a(6000)).ok(); }, milliseconds(1000)));
    if (in == "queued" && !w.verbs()) {
      EXPECT_TRUE(
          Eventually([&] { return w.broker_p().Admin("ListListeners").Number("items.0.backlog_used") == 0; },
                     milliseconds(1000)));
    }
    P.Reset();
    A.Reset();
  }
}

TEST_P(D12, ND_219_KilledPassiveClient) {
  for (const char* state : {"listening", "waiting", "incoming", "replied", "up"}) {
    SCOPED_TRACE(state);
    const std::string in = state;
    Actor& p = w.Extra(true);
    ASSERT_ND(p.Open(), SUCCESS);
    const Listener l = p.CreateListener();
    EXPECT_ND(l.Bind(w.p(7000)), SUCCESS);
    EXPECT_ND(l.Listen(), SUCCESS);
    const Connector pc = p.CreateConnector(), a = w.BoundA();
    if (in == "waiting") l.GetConnectionRequest(pc);
    const Outcome connect = in == "waiting" ? Outcome() : a.Connect(A.CreateQp(), w.p(7000));
    Outcome notify;
    if (in == "incoming" || in == "replied" || in == "up") {
      ASSERT_ND(l.GetConnectionRequest(pc), SUCCESS);
      if (in != "incoming") {
        const Outcome accept = pc.Accept(p.CreateQp());
        EXPECT_ND(connect, SUCCESS);
        if (in == "up") {
          EXPECT_ND(a.CompleteConnect(), SUCCESS);
          EXPECT_ND(accept, SUCCESS);
          notify = a.NotifyDisconnect();
        }
      }
    }
    const Address local = a.GetLocalAddress().value();
    p.Kill();
    if (in == "listening" || in == "incoming") {
      EXPECT_ND(connect, CONNECTION_REFUSED);
    }
    if (in == "replied") {
      EXPECT_TRUE(Eventually([&] { return w.StateOf(w.broker_a(), local) == "Dead"; }));
      EXPECT_ND(a.CompleteConnect(), CONNECTION_ABORTED);
    }
    if (in == "up") {
      EXPECT_ND(notify, SUCCESS);
    }
    EXPECT_TRUE(Eventually([&] { return P.CreateListener().Bind(w.p(7000)).ok(); }, milliseconds(1000)));
    P.Reset();
    A.Reset();
  }
}

TEST_P(D12, ND_220_HandlesOfOthers) {
  RawClient owner(w.broker_a().directory()), thief(w.broker_a().directory());
  ASSERT_EQ(owner.error() + thief.error(), "");
  const std::string adapter = owner.Do(OpenText(w))["completion.handle"];
  std::vector<std::string> handles;
  for (const std::string make :
       {"create_connector { adapter: ", "create_listener { adapter: ",
        "create_queue_pair { receive_queue_depth: 8 initiator_queue_depth: 8 adapter: "}) {
    handles.push_back(owner.Do(make + adapter + " }")["completion.handle"]);
  }
  handles.push_back(adapter);
  for (const std::string& handle : handles) {
    for (const std::string what : {"get_local_address { handle: ", "cancel { handle: ", "close { handle: "}) {
      EXPECT_ND(Status(CodeOf(thief.Do(what + handle + " }"))), INVALID_HANDLE) << what << handle;
    }
  }
  EXPECT_ND(Status(CodeOf(thief.Do("create_connector { adapter: " + adapter + " }"))), INVALID_HANDLE);
  for (std::uint64_t made_up : {1ULL, 0xFFFFFFFFFFFFFFFFULL, 0x1000000000000ULL}) {
    EXPECT_ND(Status(CodeOf(thief.Do("close { handle: " + std::to_string(made_up) + " }"))), INVALID_HANDLE);
  }
  EXPECT_ND(Status(CodeOf(owner.Do("bind { handle: " + handles[0] + " local " + TextAddress(w.a()) + " }"))),
            SUCCESS);
}

TEST_P(D12, ND_221_Fork) {
  if (!HasFork()) ND_EXCEPTED() << "EXCEPTED 221: the system has no fork";
  const Connector kept = w.Bound(A, w.a(6000));
  const Actor::ForkReport report = A.Fork();
  EXPECT_EQ(report.exit_status, 0);
  EXPECT_FALSE(report.inherited.ok()) << "the child used its parent's session";
  // gRPC cannot start again in a forked child; the case allows a refusal.
  EXPECT_ND(report.own, SUCCESS, DEVICE_NOT_READY);
  EXPECT_EQ(kept.GetLocalAddress().value(), w.a(6000));
  w.ExpectTraffic(w.Up({.a = kept}));
}

TEST_P(D12, ND_222_SlowClient) {
  RawClient slow(w.broker_a().directory());
  ASSERT_EQ(slow.error(), "");
  slow.HoldReading(true);
  const std::uint64_t resident_before = w.broker_a().Admin("GetStatus").Number("resident_bytes");
  bool ended = false;
  milliseconds slowest{0};
  // Far more answers than the queue of the session holds. A broken stream is a result too.
  const int count = Rounds(60'000, 60'000, 6000);
  for (int i = 0; i < count && !ended; ++i) {
    ended = !slow.Send("op_id: " + std::to_string(1000 + i) + " list_adapters {}");
    if (i % (count / 6) == 0) {
      const auto began = std::chrono::steady_clock::now();
      EXPECT_ND(w.BoundA().Close(), SUCCESS);
      slowest = std::max(slowest,
                         std::chrono::duration_cast<milliseconds>(std::chrono::steady_clock::now() - began));
    }
  }
  w.ExpectTraffic(w.Up());
  EXPECT_LT(slowest, Scaled(milliseconds(1000)));
  // The broker ends the session or stops reading from it, so its memory is bounded.
  const std::uint64_t resident = w.broker_a().Admin("GetStatus").Number("resident_bytes");
  EXPECT_LT(resident, resident_before + (64ULL << 20));
  slow.HoldReading(false);
  // When the broker ended the stream it says why; otherwise every answer arrives. A gRPC client that does not
  // read, and for which answers wait, cannot be told the reason: the broker logs it.
  int answers = 0;
  Flat next;
  for (next = slow.Next(); !next.empty() && next["ended"].empty() && answers < count; next = slow.Next())
    ++answers;
  if (answers < count) {
    const std::string said = next["ended"] + w.broker_a().log();
    EXPECT_NE(said.find("does not read"), std::string::npos) << said << " after " << answers;
  }
}

TEST_P(D12Own, ND_223_BrokerKilled) {
  World w(GetParam());
  const Link up = w.Up();
  Link waiting = w.Queued({.port = 7001});
  const Outcome notify = up.a.NotifyDisconnect();
  const Outcome request = up.l.GetConnectionRequest(w.P().CreateConnector());
  const auto epoch = [&] { return w.broker_a().Admin("GetStatus").Number("boot_epoch"); };
  const std::uint64_t former = epoch();
  w.broker_a().Kill();
  EXPECT_ND(waiting.connect, DEVICE_REMOVED);
  if (w.local()) {
    EXPECT_ND(request, DEVICE_REMOVED);
  }
  w.ExpectTraffic(up);  // The queue pairs continue.
  EXPECT_ND(waiting.a.Bind(w.a()), DEVICE_REMOVED);
  ASSERT_TRUE(w.broker_a().Start()) << w.broker_a().log();
  EXPECT_TRUE(Eventually([&] { return w.A().Connected(); }));
  EXPECT_ND(w.A().CreateConnector().Bind(w.a()), SUCCESS);
  // The session is a new one: an unconnected object of the former epoch stays removed.
  EXPECT_NE(epoch(), former);
  EXPECT_ND(waiting.a.Bind(w.a()), DEVICE_REMOVED);
  w.ExpectTraffic(up);
  const Outcome bye = up.p.Disconnect();
  EXPECT_ND(notify, DEVICE_REMOVED);
  EXPECT_ND(up.a.Disconnect(), SUCCESS);
  EXPECT_ND(bye, SUCCESS);
}

TEST_P(D12Own, ND_224_AdapterDisabled) {
  World w(GetParam());
  Link up = w.Incoming();
  up.a.SetDisconnectCallback();
  w.Reply(up);
  w.Complete(up);
  const Link waiting = w.Queued({.l = up.l});
  int exit_status = -1;
  const std::string output = w.broker_a().Ndctl("adapter disable " + w.adapter_a(), &exit_status);
  EXPECT_EQ(exit_status, 0) << output;
  EXPECT_ND(waiting.connect, DEVICE_REMOVED);
  EXPECT_TRUE(Eventually([&] { return up.a.disconnect_reason() == DisconnectReason::kAdapterDisabled; }))
      << static_cast<int>(up.a.disconnect_reason()) << " at A, " << static_cast<int>(up.p.disconnect_reason())
      << " at P";
  EXPECT_ND(up.aq.Send(1), CONNECTION_INVALID);
  Actor& late = w.Extra();
  EXPECT_ND(late.Open(), DEVICE_NOT_READY);
  EXPECT_NE(w.broker_a().Ndctl("adapter enable " + w.adapter_a(), &exit_status), "?");
  EXPECT_EQ(exit_status, 0);
  EXPECT_ND(late.Open(), SUCCESS);
  EXPECT_ND(late.CreateConnector().Bind(w.a()), SUCCESS);
}

TEST_P(D12, ND_225_QueuePairBelongsToItsProcess) {
  ND_NEEDS_USERS("225");
  const Link up = w.Up();
  for (Actor* owner : {&A, &P}) EXPECT_EQ(WaysInto(owner->process().pid()), 0);
  ExpectFixedMemory(A.process().pid());
  w.ExpectTraffic(up);
}

TEST_P(D12, ND_228_Counters) {
  const auto count = [&](Daemon& broker, const char* name) { return w.Counter(broker, name); };
  std::uint64_t failures = count(w.broker_a(), "connect_failure");
  const auto one_more_failure = [&](const char* after) {
    EXPECT_EQ(count(w.broker_a(), "connect_failure"), ++failures) << after;
  };
  EXPECT_ND(w.BoundA().Connect(A.CreateQp(), w.p(7999)), CONNECTION_REFUSED);
  one_more_failure("no listener");
  EXPECT_ND(w.BoundA().Connect(A.CreateQp(), World::Ip("203.0.113.9", 7000)), w.no_route());
  one_more_failure("no route");
  {
    const Listener l = w.Listening(7001, 1);
    EXPECT_ND(l.ControlConnectEvents(true), SUCCESS);
    EXPECT_ND(w.BoundA().Connect(A.CreateQp(), w.p(7001)), CONNECTION_REFUSED);
    one_more_failure("paused");
    EXPECT_ND(l.ControlConnectEvents(false), SUCCESS);
    Link link = w.Queued({.port = 7001, .l = l});
    ASSERT_TRUE(
        Eventually([&] { return w.broker_p().Admin("ListListeners").Number("items.0.backlog_used") == 1; }));
    EXPECT_ND(w.BoundA().Connect(A.CreateQp(), w.p(7001)), CONNECTION_REFUSED);
    one_more_failure("backlog full");
    w.Deliver(link);
    EXPECT_ND(link.p.Reject(), SUCCESS);
    EXPECT_ND(link.connect, CONNECTION_REFUSED);
    one_more_failure("rejected");
    EXPECT_ND(link.p.Close(), SUCCESS);
    const Link withdrawn = w.Incoming({.port = 7001, .l = l});
    EXPECT_ND(withdrawn.a.Cancel(), SUCCESS);
    EXPECT_ND(withdrawn.connect, CANCELED);
    one_more_failure("canceled");
    EXPECT_ND(withdrawn.p.Close(), SUCCESS);
    EXPECT_ND(l.Close(), SUCCESS);
  }
  const std::uint64_t connects = count(w.broker_a(), "connect"), accepts = count(w.broker_p(), "accept");
  const std::uint64_t active = count(w.broker_a(), "active_connection");
  const Link up = w.Up();
  EXPECT_EQ(count(w.broker_a(), "connect"), connects + 1);
  EXPECT_EQ(count(w.broker_p(), "accept"), accepts + 1);
  EXPECT_EQ(count(w.broker_a(), "active_connection"), active + (local() ? 2 : 1));
  EXPECT_ND(up.a.Disconnect(), SUCCESS);
  EXPECT_TRUE(Eventually([&] { return count(w.broker_p(), "active_connection") == active; }));
  EXPECT_EQ(count(w.broker_a(), "active_connection"), active);
}

TEST_P(D12, ND_229_NdctlShowsConnections) {
  const Link up = w.Up();
  const Endpoint e = A.CreateSharedEndpoint(w.a(9999));
  const std::string connections = w.broker_a().Ndctl("connection list -o json");
  for (const std::string& part :
       {up.a.GetLocalAddress().value().ToString(), up.to.ToString(), std::to_string(A.process().pid()),
        std::string("uid"), std::string("onnected")}) {
    EXPECT_NE(connections.find(part), std::string::npos) << part << " is missing in\n" << connections;
  }
  EXPECT_NE(w.broker_p().Ndctl("listener list -o json").find(":7000"), std::string::npos);
  const std::string ports = w.broker_a().Ndctl("port list -o json");
  EXPECT_NE(ports.find("shared endpoint"), std::string::npos) << ports;
  EXPECT_NE(ports.find(":9999"), std::string::npos) << ports;
  EXPECT_NE(w.broker_p().Ndctl("port list -o json").find("listener"), std::string::npos);
}

TEST_P(D12, ND_230_MalformedMessages) {
  const std::string socket = ClientSocketPath(w.broker_a().directory(), kBrokerSocketName);
  const std::string method = "/ndbroker.v1.Broker/Session";
  // No message, an empty one, and a well-formed one that is not Hello: each gets an error.
  const std::string garbage = Probe::Get().Garbage(socket, method, "not a message at all");
  EXPECT_EQ(garbage.substr(0, 2), "3 ") << garbage;
  EXPECT_NE(garbage.find("Hello"), std::string::npos) << garbage;
  EXPECT_NE(Probe::Get().Garbage(socket, method, std::string(32 << 20, 'x')).substr(0, 2), "0 ");
  EXPECT_NE(Probe::Get().Garbage(socket, method, "").substr(0, 2), "0 ");
  EXPECT_NE(Probe::Get().Garbage(socket, "/ndbroker.v1.Broker/NoSuchCall", "x").substr(0, 2), "0 ");
  {
    // Well-formed messages with invalid contents.
    RawClient client(w.broker_a().directory());
    ASSERT_EQ(client.error(), "");
    const std::string adapter = client.Do(OpenText(w))["completion.handle"];
    const std::string c = client.Do("create_connector { adapter: " + adapter + " }")["completion.handle"];
    EXPECT_ND(
        Status(CodeOf(client.Do("bind { handle: " + c + " local { family: 9 ip: \"xyz\" port: 99999 } }"))),
        INVALID_ADDRESS, INVALID_PARAMETER);
    EXPECT_ND(Status(CodeOf(client.Do("open_adapter { name: \"" + std::string(10'000, 'n') + "\" }"))),
              INVALID_PARAMETER);
    // An operation without an id or a body may end the session or get an error; both are correct.
    client.Send("op_id: 500");
    client.Next(milliseconds(200));
  }
  {
    RawClient no_lane(w.broker_a().directory(), false, true);
    EXPECT_NE(no_lane.error(), "");
  }
  w.ExpectTraffic(w.Up());
}

TEST_P(D12, ND_231_ForgedIdentity) {
  // A message has no field for pid or uid. The token of another lane is the closest forgery.
  const std::string before = w.broker_a().Ndctl("session list -o json");
  RawClient client(w.broker_a().directory());
  ASSERT_EQ(client.error(), "");
  const Flat sessions = w.broker_a().Admin("ListSessions");
  bool found = false;
  for (std::size_t i = 0; i < sessions.Count("items"); ++i) {
    const std::string row = "items." + std::to_string(i) + ".owner.";
    if (sessions[row + "application"] != "probe") continue;
    found = true;
    EXPECT_EQ(sessions.Number(row + "pid"), static_cast<std::uint64_t>(Probe::Get().pid()));
    EXPECT_EQ(sessions.Number(row + "uid"), os::UserNumber());
  }
  EXPECT_TRUE(found) << before;
  RawClient forger(w.broker_a().directory(), true, false);
  ASSERT_TRUE(forger.Send("op_id: 1 hello { token: \"0123456789abcdef\" min_version: 1 max_version: 1 }"));
  const Flat answer = forger.Next();
  EXPECT_TRUE(!answer["ended"].empty() || CodeOf(answer) == ACCESS_DENIED)
      << answer["completion.status.message"];
}

}  // namespace
}  // namespace nd::conformance
