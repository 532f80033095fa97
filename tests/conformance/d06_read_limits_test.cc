// SPDX-License-Identifier: Apache-2.0
// d.6 Read limits: table b.4 row by row, and what the negotiated numbers do to Reads.
#include "tests/conformance/world.h"

namespace nd::conformance {
namespace {

ND_GROUP(D06);

struct Row {
  const char* number;
  ReadLimits active_caps, connect, passive_caps, accept;
  ReadLimits passive_sees, active_final, passive_final;
};

std::string Caps(const ReadLimits& caps) {
  return "max-inbound-read-limit = " + std::to_string(caps.inbound) +
         "\nmax-outbound-read-limit = " + std::to_string(caps.outbound);
}

ReadLimits LimitsOf(const Connector& c) {
  const Connector::Limits limits = c.GetReadLimits();
  EXPECT_ND(limits.status, SUCCESS);
  return limits.limits;
}

// `count` + 3 Reads at once: all complete, and no more than `limit` were in flight at any time.
void ExpectReads(World& w, const Qp& reader, Actor& target, std::uint32_t limit) {
  const Memory& memory = target.Scratch();
  const Memory& sink = reader.actor().Scratch();
  if (limit == 0) {
    EXPECT_ND(reader.Read(1, memory, 0, 64), INVALID_DEVICE_REQUEST);
    return;
  }
  memory.Fill(0, 1 << 20, 5);
  const std::uint32_t count = std::min(limit + 3, 60U);
  constexpr std::uint32_t kSize = 8192;
  for (std::uint32_t i = 0; i < count; ++i) {
    ASSERT_ND(reader.Read(100 + i, memory, 0, kSize, (2 << 20) + i * kSize), SUCCESS);
  }
  for (std::uint32_t i = 0; i < count; ++i) {
    const Work work = reader.cq.Next();
    ASSERT_ND(work, SUCCESS);
    EXPECT_EQ(work.context, 100 + i) << "Reads complete in order";
    EXPECT_TRUE(sink.Check((2 << 20) + i * kSize, kSize, 5));
  }
  (void)w;
}

void RunRow(Transport transport, const Row& row, bool shared_caps) {
  // On one broker both ends are on one adapter and so under the same caps.
  WorldOptions options{.adapter = Caps(row.active_caps)};
  if (transport == Transport::kIwarp && !shared_caps) {
    options.adapter.clear();
    options.sections = {};
    options.adapter_p = Caps(row.passive_caps);
  }
  World w(transport, options);
  if (transport == Transport::kIwarp && !shared_caps) {
    DaemonOptions daemon = w.broker_a().options();
    w.A().Reset();
    w.A().Kill();
    daemon.adapters[0] += Caps(row.active_caps);
    ASSERT_TRUE(w.broker_a().Stop());
    w.broker_a().Configure(daemon);
    ASSERT_TRUE(w.broker_a().Start());
    w.Begin();
  }
  Link link = w.Incoming({.connect = {.limits = row.connect}});
  EXPECT_EQ(LimitsOf(link.p), row.passive_sees);
  w.Reply(link, {.limits = row.accept});
  EXPECT_EQ(LimitsOf(link.a), row.active_final);
  w.Complete(link);
  EXPECT_EQ(LimitsOf(link.a), row.active_final);
  EXPECT_EQ(LimitsOf(link.p), row.passive_final);
  ExpectReads(w, link.aq, w.P(), row.active_final.outbound);
  ExpectReads(w, link.pq, w.A(), row.passive_final.outbound);
  // What the queue pair's own counters say, as the admin service shows them.
  w.ExpectTraffic(link);
}

// With caps that differ a row needs two adapters: on one broker P uses the other one.
bool SameCaps(const Row& row) {
  return row.active_caps == row.passive_caps;
}

void RunRowOnBoth(Transport transport, const Row& row) {
  if (SameCaps(row) || transport == Transport::kIwarp) return RunRow(transport, row, SameCaps(row));
  WorldOptions options{.adapter = Caps(row.active_caps)};
  World w(transport, options);
  DaemonOptions daemon = w.broker_a().options();
  daemon.adapters[1] += Caps(row.passive_caps);
  w.A().Reset();
  w.P().Reset();
  w.A().Kill();
  w.P().Kill();
  ASSERT_TRUE(w.broker_a().Stop());
  w.broker_a().Configure(daemon);
  ASSERT_TRUE(w.broker_a().Start());
  w.Begin();
  const Object other = w.P().OpenAdapter("soft1");
  ASSERT_ND(other.status(), SUCCESS);
  const Listener l = w.P().CreateListener(other.id());
  EXPECT_ND(l.Bind(w.p_other(7000)), SUCCESS);
  EXPECT_ND(l.Listen(), SUCCESS);
  const Connector a = w.BoundA(), p = w.P().CreateConnector(other.id());
  const Qp aq = w.A().CreateQp(), pq = w.P().CreateQp({}, other.id());
  const Outcome connect = a.Connect(aq, w.p_other(7000), {.limits = row.connect});
  ASSERT_ND(l.GetConnectionRequest(p), SUCCESS);
  EXPECT_EQ(LimitsOf(p), row.passive_sees);
  const Outcome accept = p.Accept(pq, {.limits = row.accept});
  EXPECT_ND(connect, SUCCESS);
  EXPECT_EQ(LimitsOf(a), row.active_final);
  EXPECT_ND(a.CompleteConnect(), SUCCESS);
  EXPECT_ND(accept, SUCCESS);
  EXPECT_EQ(LimitsOf(a), row.active_final);
  EXPECT_EQ(LimitsOf(p), row.passive_final);
}

TEST_P(D06Own, ND_116_Row1) {
  RunRowOnBoth(GetParam(), {"1", {16, 16}, {16, 16}, {16, 16}, {16, 16}, {16, 16}, {16, 16}, {16, 16}});
}
TEST_P(D06Own, ND_117_Row2) {
  RunRowOnBoth(GetParam(), {"2", {16, 16}, {0, 8}, {16, 16}, {16, 0}, {8, 0}, {0, 8}, {8, 0}});
}
TEST_P(D06Own, ND_118_Row3) {
  RunRowOnBoth(GetParam(), {"3", {4, 4}, {100, 100}, {16, 1}, {100, 100}, {4, 1}, {1, 4}, {4, 1}});
}
TEST_P(D06Own, ND_119_Row4) {
  RunRowOnBoth(GetParam(), {"4", {16, 128}, {1, 200}, {64, 16}, {32, 10}, {64, 1}, {1, 32}, {32, 1}});
}
TEST_P(D06Own, ND_120_Row5) {
  RunRowOnBoth(GetParam(), {"5", {16, 16}, {0, 0}, {16, 16}, {5, 5}, {0, 0}, {0, 0}, {0, 0}});
}
TEST_P(D06Own, ND_121_Row6) {
  RunRowOnBoth(GetParam(), {"6", {16, 16}, {8, 8}, {16, 16}, {0, 0}, {8, 8}, {0, 0}, {0, 0}});
}
TEST_P(D06Own, ND_122_Row7) {
  RunRowOnBoth(GetParam(), {"7", {0, 16}, {9, 9}, {16, 16}, {9, 9}, {9, 0}, {0, 9}, {9, 0}});
}
TEST_P(D06Own, ND_123_Row8) {
  RunRowOnBoth(GetParam(), {"8", {16, 16}, {3, 12}, {8, 2}, {4, 1}, {8, 2}, {1, 4}, {4, 1}});
}
TEST_P(D06Own, ND_124_Row9) {
  // The caps of rdma_cm are 255; those of soft are 128.
  RunRowOnBoth(GetParam(),
               {"9", {128, 128}, {4000, 4000}, {128, 128}, {4000, 4000}, {128, 128}, {128, 128}, {128, 128}});
}

TEST_P(D06, ND_125_LimitsBeforeRequest) {
  EXPECT_ND(A.CreateConnector().GetReadLimits().status, CONNECTION_INVALID);
  EXPECT_ND(w.BoundA().GetReadLimits().status, CONNECTION_INVALID);
  const Link link = w.Incoming({.connect = {.limits = {3, 5}}});
  EXPECT_ND(link.a.GetReadLimits().status, CONNECTION_INVALID);
  EXPECT_ND(link.p.GetReadLimits(false, false).status, SUCCESS);
  EXPECT_EQ(link.p.GetReadLimits(true, false).limits.inbound, 5u);
  EXPECT_EQ(link.p.GetReadLimits(false, true).limits.outbound, 3u);
  EXPECT_EQ(link.p.GetReadLimits().limits, (ReadLimits{5, 3}));
}

TEST_P(D06, ND_126_ActiveDislikesLimits) {
  const Link link = w.Replied({.accept = {.limits = {1, 1}}});
  EXPECT_EQ(LimitsOf(link.a), (ReadLimits{1, 1}));
  EXPECT_ND(link.a.Reject(), SUCCESS);
  EXPECT_ND(link.accept, CONNECTION_ABORTED);
}

TEST_P(D06, ND_127_OutboundWithoutOffer) {
  Link link = w.Incoming({.connect = {.limits = {0, 4}}});
  w.Reply(link, {.limits = {4, 5}});
  w.Complete(link);
  EXPECT_EQ(LimitsOf(link.p), (ReadLimits{4, 0}));
}

TEST_P(D06, ND_128_LargestNumbers) {
  const AdapterInfo a = A.Info(), p = P.Info();
  const Link up = w.Up({.connect = {.limits = {~0U, ~0U}}, .accept = {.limits = {~0U, ~0U}}});
  const ReadLimits expected{std::min(a.max_inbound_read_limit, p.max_outbound_read_limit),
                            std::min(a.max_outbound_read_limit, p.max_inbound_read_limit)};
  EXPECT_EQ(LimitsOf(up.a), expected);
  EXPECT_EQ(LimitsOf(up.p), (ReadLimits{expected.outbound, expected.inbound}));
}

TEST_P(D06, ND_129_SameBeforeAndAfterComplete) {
  Link link = w.Replied({.connect = {.limits = {3, 9}}, .accept = {.limits = {5, 2}}});
  const ReadLimits before = LimitsOf(link.a);
  EXPECT_EQ(before, (ReadLimits{2, 5}));
  w.Complete(link);
  EXPECT_EQ(LimitsOf(link.a), before);
}

TEST_P(D06, ND_130_NdkGivesTheSame) {
  const Link link = w.Incoming({.connect = {.limits = {3, 9}}});
  EXPECT_EQ(link.p.NdkGetConnectionData(0, true).limits, LimitsOf(link.p));
}

TEST_P(D06, ND_131_RetryWithOtherLimits) {
  const Link first = w.Incoming({.connect = {.limits = {3, 9}}});
  EXPECT_ND(first.p.Reject(), SUCCESS);
  EXPECT_ND(first.connect, CONNECTION_REFUSED);
  const Link second = w.Incoming({.connect = {.limits = {7, 2}}, .aq = first.aq, .a = first.a, .l = first.l});
  EXPECT_EQ(LimitsOf(second.p), (ReadLimits{2, 7}));
}

}  // namespace
}  // namespace nd::conformance
