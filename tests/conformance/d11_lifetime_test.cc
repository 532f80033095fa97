// SPDX-License-Identifier: Apache-2.0
// d.11 Lifetime.
#include <algorithm>

#include "tests/conformance/world.h"

namespace nd::conformance {
namespace {

ND_GROUP(D11);

// Checks that `first` completed before `second`.
::testing::AssertionResult InOrder(Actor& actor, const Outcome& first, const Outcome& second) {
  const std::vector<std::uint32_t> log = actor.CompletionLog();
  const auto one = std::find(log.begin(), log.end(), first.op()),
             two = std::find(log.begin(), log.end(), second.op());
  if (two == log.end())
    return ::testing::AssertionFailure() << "the second did not complete through the ring";
  // An inline answer precedes every completion.
  if (!first.inline_status().pending() || one < two) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << "completed in the wrong order";
}

TEST_P(D11, ND_209_QueueWaitsForQueuePair) {
  const Qp qp = A.CreateQp();
  const Outcome cq = qp.cq.Close();
  EXPECT_PENDING(cq);
  const Outcome closing = qp.Close();
  EXPECT_ND(closing, SUCCESS);
  EXPECT_ND(cq, SUCCESS);
  EXPECT_TRUE(InOrder(A, closing, cq));
}

TEST_P(D11, ND_210_QueuePairWaitsForConnector) {
  const Link up = w.Up({.posted_receives = 1});
  const Outcome closing = up.aq.NdkClose();
  EXPECT_PENDING(closing);
  // The handle is invalid, but the connection continues.
  EXPECT_ND(up.aq.Receive(2), INVALID_HANDLE);
  EXPECT_ND(up.pq.Send(1, 0, 100), SUCCESS);
  EXPECT_ND(up.aq.cq.Next(), SUCCESS);
  EXPECT_PENDING(closing);
  EXPECT_ND(up.a.Close(), SUCCESS);
  EXPECT_ND(closing, SUCCESS);
}

TEST_P(D11, ND_211_SuccessorsFirst) {
  const Srq srq = A.CreateSrq();
  const Qp qp = A.CreateQp({.srq = srq});
  const Outcome srq_close = srq.Close(), cq_close = qp.cq.Close();
  EXPECT_PENDING(srq_close);
  EXPECT_PENDING(cq_close);
  const Outcome qp_close = qp.Close();
  EXPECT_ND(qp_close, SUCCESS);
  EXPECT_ND(srq_close, SUCCESS);
  EXPECT_ND(cq_close, SUCCESS);
  EXPECT_TRUE(InOrder(A, qp_close, srq_close));
  EXPECT_TRUE(InOrder(A, qp_close, cq_close));
  // Closing an adapter closes every object made from it.
  Actor& other = w.Extra();
  ASSERT_ND(other.Open(), SUCCESS);
  EXPECT_ND(other.CreateConnector().Bind(w.a(6000)), SUCCESS);
  other.CreateQp();
  EXPECT_ND(other.CloseAdapter(), SUCCESS);
  EXPECT_ND(A.CreateConnector().Bind(w.a(6000)), SUCCESS);
  ND_NEEDS_WINDOWS("211");
  // A region with a bound window returns DEVICE_BUSY instead of waiting.
  const Link up = w.Up();
  const Memory memory = A.Allocate(4096, kAllowLocalWrite | kAllowRemoteRead);
  const Window window = A.CreateWindow();
  EXPECT_ND(up.aq.BindWindow(1, memory, window, 0, 4096, kOpAllowRead), SUCCESS);
  EXPECT_ND(up.aq.cq.Next(), SUCCESS);
  EXPECT_ND(memory.Deregister(), DEVICE_BUSY);
  EXPECT_ND(up.aq.Invalidate(2, window), SUCCESS);
  EXPECT_ND(up.aq.cq.Next(), SUCCESS);
  EXPECT_ND(memory.Deregister(), SUCCESS);
}

TEST_P(D11, ND_212_CloseFromCallback) {
  ND_NEEDS_TWO_PHASES("212");
  const Listener l = w.Listening();
  const Connector a = w.Bound(A, w.a(6000)), p = P.CreateConnector();
  const Outcome connect = a.Connect(A.CreateQp(), w.p(7000), {.tell = Tell::kCallbackCloses});
  ASSERT_ND(l.GetConnectionRequest(p), SUCCESS);
  const Outcome accept = p.Accept(P.CreateQp());
  EXPECT_ND(connect, SUCCESS);
  EXPECT_ND(accept, CONNECTION_ABORTED);
  EXPECT_EQ(connect.completions(), 1);
  EXPECT_ND(a.CompleteConnect(), INVALID_HANDLE);
  EXPECT_TRUE(Eventually([&] { return A.CreateConnector().Bind(w.a(6000)).ok(); }));
}

TEST_P(D11, ND_213_CloseEndsPendingFirst) {
  const Link link = w.Queued();
  const Outcome closing = link.a.Close();
  EXPECT_ND(closing, SUCCESS);
  EXPECT_ND(link.connect, CANCELED);
  if (closing.inline_status().pending()) {
    EXPECT_TRUE(InOrder(A, link.connect, closing));
  }
}

TEST_P(D11, ND_214_HandleAfterClose) {
  const Connector c = w.BoundA();
  const Listener l = w.Listening();
  const Endpoint e = A.CreateSharedEndpoint(w.a(9999));
  const Qp qp = A.CreateQp();
  for (const Object& object :
       {static_cast<Object>(c), static_cast<Object>(l), static_cast<Object>(e), static_cast<Object>(qp)}) {
    EXPECT_ND(object.Close(), SUCCESS);
  }
  EXPECT_ND(c.Bind(w.a()), INVALID_HANDLE);
  EXPECT_ND(c.Connect(A.CreateQp(), w.p(7000)), INVALID_HANDLE);
  EXPECT_ND(c.GetLocalAddress(), INVALID_HANDLE);
  EXPECT_ND(c.Cancel(), INVALID_HANDLE);
  EXPECT_ND(c.NotifyDisconnect(), INVALID_HANDLE);
  EXPECT_ND(l.Listen(), INVALID_HANDLE);
  EXPECT_ND(l.GetConnectionRequest(P.CreateConnector()), INVALID_HANDLE);
  EXPECT_ND(e.GetLocalAddress(), INVALID_HANDLE);
  EXPECT_ND(qp.Receive(1), INVALID_HANDLE);
  EXPECT_ND(w.BoundA().Connect(qp, w.p(7000)), INVALID_HANDLE);
}

// The slot of a closed object is used again; the old handle must not name the new object.
TEST_P(D11Own, ND_214_HandleOfReusedSlot) {
  World w(GetParam());
  RawClient client(w.broker_a().directory());
  ASSERT_EQ(client.error(), "");
  const std::string adapter = client.Do(OpenText(w))["completion.handle"];
  const auto create = [&] {
    return client.Do("create_connector { adapter: " + adapter + " }")["completion.handle"];
  };
  const auto ask = [&](const std::string& op) { return Status(CodeOf(client.Do(op))); };
  // The middle 24 bits of a handle are its slot (daemon/core/ids.h).
  const auto slot = [](const std::string& handle) { return std::stoull(handle) >> 24 & 0xFFFFFF; };
  const std::string old = create();
  ASSERT_NE(old, "");
  EXPECT_ND(ask("close { handle: " + old + " }"), SUCCESS);
  std::string now = create();
  for (int i = 0; i < 10'000 && slot(now) != slot(old); ++i) {
    EXPECT_ND(ask("close { handle: " + now + " }"), SUCCESS);
    now = create();
  }
  ASSERT_EQ(slot(now), slot(old)) << "the slot was not used again";
  EXPECT_NE(now, old);
  const std::string local = " local " + TextAddress(w.a(6000)) + " }";
  EXPECT_ND(ask("bind { handle: " + old + local), INVALID_HANDLE);
  EXPECT_ND(ask("cancel { handle: " + old + " }"), INVALID_HANDLE);
  EXPECT_ND(ask("close { handle: " + old + " }"), INVALID_HANDLE);
  EXPECT_ND(ask("bind { handle: " + now + local), SUCCESS);
}

TEST_P(D11, ND_215_AdapterCloseWaitsForCallbacks) {
  Actor& other = w.Extra();
  ASSERT_ND(other.Open(), SUCCESS);
  w.Listening();
  const Connector c = other.CreateConnector();
  EXPECT_ND(c.Bind(w.a()), SUCCESS);
  // The callback sleeps for a second before it records that it ran.
  const Outcome connect = c.Connect(other.CreateQp(), w.p(7999), {.tell = Tell::kCallbackSleeps});
  EXPECT_ND(connect.inline_status(), PENDING);
  EXPECT_ND(other.CloseAdapter(), SUCCESS);
  EXPECT_EQ(connect.completions(), 1);
}

TEST_P(D11, ND_216_FlushAndCloseRacePosting) {
  const std::string result =
      A.Program("post_race", "broker=" + w.broker_a().directory() + " ip=" + w.a().IpToString() +
                                 " seconds=" + std::to_string(Rounds(5, 60, 3)));
  EXPECT_EQ(result.substr(0, 3), "ok ") << result;
}

TEST_P(D11, ND_217_CloseTwice) {
  const Connector c = A.CreateConnector();
  EXPECT_ND(c.Close(), SUCCESS);
  EXPECT_ND(c.Close(), INVALID_HANDLE);
  const Qp qp = A.CreateQp();
  EXPECT_ND(qp.Close(), SUCCESS);
  EXPECT_ND(qp.Close(), INVALID_HANDLE);
}

TEST_P(D11, ND_218_Churn) {
  const auto resident = [&] { return w.broker_a().Admin("GetStatus").Number("resident_bytes") >> 10; };
  const auto churn = [&](int rounds) {
    return A.Program("churn", "broker=" + w.broker_a().directory() + " ip=" + w.a().IpToString() +
                                  " rounds=" + std::to_string(rounds));
  };
  const int rounds = Rounds(1000, 10'000, 50);
  EXPECT_EQ(churn(rounds / 5), "ok");
  const std::uint64_t before = resident();
  EXPECT_EQ(churn(rounds), "ok");
  EXPECT_LE(resident(), before + 4096) << "KiB of the broker, which had " << before;
}

}  // namespace
}  // namespace nd::conformance
