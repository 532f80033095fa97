// SPDX-License-Identifier: Apache-2.0
// What the end of an attempt leaves behind: counters, the answer to its other side, the status for its
// client. What news of the administrator and of the provider change.
#include <set>
#include <string>
#include <vector>

#include "daemon/core/core_harness.h"

namespace nd::core {
namespace {

using SC = StatusCode;
using Stage = World::Stage;

// A rejected attempt is over for the provider: its id is not used again.
void ExpectNothingAfterReject(const World& w, int host) {
  std::set<std::uint64_t> rejected;
  for (const CmReject& reject : w.Seen<CmReject>(host))
    rejected.insert(static_cast<std::uint64_t>(reject.id));
  EXPECT_FALSE(rejected.empty());
  for (const CmAbort& abort : w.Seen<CmAbort>(host)) {
    EXPECT_FALSE(rejected.contains(static_cast<std::uint64_t>(abort.id)));
  }
}

std::vector<provider::AdapterDescription> AdaptersOf(const World& w) {
  std::vector<provider::AdapterDescription> adapters;
  for (const AdapterRow& row : w.broker().Adapters()) adapters.push_back(row.description);
  return adapters;
}

// ND_228: an attempt that is given up in whatever way counts once.
TEST(Endings, EachAttemptThatIsGivenUpCountsAsAFailure) {
  const std::vector<void (*)(World&, const World::Up&)> ways = {
      [](World& w, const World::Up& up) { EXPECT_EQ(w.Close(up.a, up.ac), SC::kSuccess); },
      [](World& w, const World::Up& up) { EXPECT_EQ(w.Close(up.a, up.ac, true), SC::kSuccess); },
      [](World& w, const World::Up& up) { w.Step(0, KillConnection{up.ac}); },
      [](World& w, const World::Up& up) { EXPECT_EQ(w.Try(up.a, CancelOp{up.ac}), SC::kSuccess); },
      [](World& w, const World::Up&) {
        w.Step(0, SetAdapter{"a0", false});
      },
      [](World& w, const World::Up& up) { w.Step(0, SessionClosed{up.a.session}); },
  };
  for (std::size_t i = 0; i < ways.size(); ++i) {
    World w(2);
    const World::Up up = w.Pair(Stage::kConnecting);
    w.Bound(up.a, "10.0.0.1:6100");  // Not an attempt.
    ways[i](w, up);
    EXPECT_EQ(w.broker(0).counters().connect_failure, 1u) << i;
  }
}

TEST(Endings, NothingIsSaidAboutARejectedAttempt) {
  const std::vector<void (*)(World&, const World::Up&)> ways = {
      [](World& w, const World::Up& up) { EXPECT_EQ(w.Try(up.p, RejectOp{up.pc}), SC::kSuccess); },
      [](World& w, const World::Up& up) { w.Step(1, KillConnection{up.pc}); },
      [](World& w, const World::Up&) {
        w.Step(1, SetAdapter{"a0", false});
      },
      [](World& w, const World::Up& up) { EXPECT_EQ(w.Close(up.p, up.pc), SC::kSuccess); },
      [](World& w, const World::Up& up) { w.Step(1, SessionClosed{up.p.session}); },
      [](World& w, const World::Up& up) {  // The queue pair is in another attempt.
        const Handle qp = w.Qp(up.p);
        w.wire_is_cut = true;
        w.Connect(up.p, w.Bound(up.p, "10.0.1.1:6000"), qp, "10.0.1.1:7999");
        w.wire_is_cut = false;
        EXPECT_NE(w.Try(up.p, AcceptOp{up.pc, qp, {}, {}}), SC::kSuccess);
      },
  };
  for (std::size_t i = 0; i < ways.size(); ++i) {
    SCOPED_TRACE(i);
    World w(2);
    const World::Up up = w.Pair(Stage::kIncoming);
    ways[i](w, up);
    ExpectNothingAfterReject(w, 1);
  }
}

// With one place on the wire, the next attempt leaves as soon as the one before it is given up.
TEST(Endings, PlaceOnTheWireIsUsedAgainAtOnce) {
  const std::vector<void (*)(World&, const World::Client&, Handle)> ways = {
      [](World& w, const World::Client&, Handle first) { w.Step(0, KillConnection{first}); },
      [](World& w, const World::Client& a, Handle first) { w.Close(a, first); },
      [](World& w, const World::Client& a, Handle first) { w.Try(a, CancelOp{first}); },
      [](World& w, const World::Client& a, Handle) { w.Step(0, SessionClosed{a.session}); },
  };
  Settings settings;
  settings.max_handshakes_in_flight = 1;
  for (std::size_t i = 0; i < ways.size(); ++i) {
    World w(2, settings);
    const auto a = w.Open(0), b = w.Open(0);
    w.wire_is_cut = true;
    const Handle first = w.Bound(a, "10.0.0.1:6001");
    w.Connect(a, first, w.Qp(a), "10.0.1.1:7000");
    w.Connect(b, w.Bound(b, "10.0.0.1:6002"), w.Qp(b), "10.0.1.1:7000");
    ASSERT_EQ(w.Seen<CmConnect>(0).size(), 1u);
    ways[i](w, a, first);
    EXPECT_EQ(w.Seen<CmConnect>(0).size(), 2u) << i;
  }
}

TEST(Endings, ReplyThatIsKilledCannotBeCompleted) {
  World w(2);
  const World::Up up = w.Pair(Stage::kReplied);
  w.Step(0, KillConnection{up.ac});
  const Complete complete = w.Call(up.a, CompleteConnectOp{up.ac, false});
  EXPECT_EQ(complete.status.code(), SC::kConnectionAborted);
  EXPECT_EQ(complete.status.detail(), Detail::kLocalAdministrator);
}

TEST(Endings, AnswersToAnEndedRequestSayWhatEndedIt) {
  World w(2);
  const World::Up up = w.Pair(Stage::kIncoming);
  w.Step(1, KillConnection{up.pc});
  const Complete reject = w.Call(up.p, RejectOp{up.pc});
  EXPECT_EQ(reject.status.code(), SC::kConnectionAborted);
  EXPECT_EQ(reject.status.detail(), Detail::kLocalAdministrator);
  const Complete accept = w.Call(up.p, AcceptOp{up.pc, w.Qp(up.p), {}, {}});
  EXPECT_EQ(accept.status.code(), SC::kConnectionAborted);
  EXPECT_EQ(accept.status.detail(), Detail::kLocalAdministrator);
}

TEST(Endings, AcceptIsBoundedByTheTimeForEstablishment) {
  Settings settings;
  settings.establish_timeout = std::chrono::seconds(3);
  World w(2, settings);
  const World::Up up = w.Pair(Stage::kIncoming);
  w.wire_is_cut = true;
  const OpId accept = w.Submit(up.p, AcceptOp{up.pc, up.pq, {}, {}});
  ASSERT_EQ(w.Code(up.p, accept), SC::kPending);
  ASSERT_EQ(w.Seen<CmAccept>(1).size(), 1u);
  EXPECT_FALSE(w.Seen<CmAccept>(1)[0].params.extensions) << "this client knows none";
  w.Advance(std::chrono::seconds(4));
  EXPECT_EQ(w.Code(up.p, accept), SC::kIoTimeout);
}

TEST(News, MorePlacesOnTheWireAreUsedAtOnce) {
  Settings settings;
  settings.max_handshakes_in_flight = 1;
  World w(2, settings);
  const auto a = w.Open(0);
  w.wire_is_cut = true;
  for (int i = 0; i < 3; ++i) w.Connect(a, w.Bound(a, "10.0.0.1:0"), w.Qp(a), "10.0.1.1:7000");
  const std::size_t before = w.Seen<CmConnect>(0).size();
  EXPECT_LT(before, 3u);
  settings.max_handshakes_in_flight = 64;
  w.Step(0, SettingsChanged{settings, {}});
  EXPECT_EQ(w.Seen<CmConnect>(0).size(), 3u);
}

// The ports of an address are given least recently used first; news about the adapter does not start that
// again.
TEST(News, NewAddressesOfAnAdapterKeepTheOrderOfPorts) {
  World w;
  const auto c = w.Open();
  const auto bind = [&] { return w.Call(c, BindOp{w.Connector(c), Ip("10.0.0.1:0")}).reply.address.port(); };
  const int first = bind();
  auto adapters = AdaptersOf(w);
  adapters[0].info.addresses.push_back(Ip("10.0.0.77:0"));
  w.Step(0, AdaptersChanged{adapters});
  const int second = bind();
  EXPECT_EQ(second, first == 65535 ? 49152 : first + 1);
}

}  // namespace
}  // namespace nd::core
