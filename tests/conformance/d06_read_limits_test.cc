// SPDX-License-Identifier: Apache-2.0
// d.6 Read limits: table b.4 row by row, and the effect of negotiated limits on Reads.
#include <algorithm>

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

// The read counters of one side, from the admin service; asks neither client.
class ReadCounts {
 public:
  ReadCounts(World& w, const Link& link, bool active)
      : w_(w),
        broker_(active ? w.broker_a() : w.broker_p()),
        local_((active ? link.a : link.p).GetLocalAddress().value()),
        peer_((active ? link.p : link.a).GetLocalAddress().value()) {}
  std::uint64_t now() const { return Number("reads_in_flight"); }
  std::uint64_t most() const { return Number("reads_in_flight_max"); }

 private:
  std::uint64_t Number(const char* field) const {
    EXPECT_EQ(w_.StateOf(broker_, local_, peer_), "Connected");
    const std::string text = w_.FieldOf(broker_, field, local_, peer_);
    return text.empty() ? 0 : std::stoull(text);
  }
  World& w_;
  Daemon& broker_;
  const Address local_, peer_;
};

// Posts more Reads than the limit to a target that does not answer yet: exactly `limit` are in flight, and
// the others follow as these complete.
void ExpectReads(World& w, const Link& link, bool active, std::uint32_t limit) {
  const Qp& reader = active ? link.aq : link.pq;
  const ReadCounts counts(w, link, active);
  Actor& target = active ? w.P() : w.A();
  constexpr std::uint32_t kSize = 4096, kSink = 2 << 20;
  Memory source = target.Allocate(kSize, kAllowLocalWrite | kAllowRemoteRead, false);
  if (limit == 0) {
    EXPECT_ND(reader.Read(1, source, 0, 64), INVALID_DEVICE_REQUEST);
    EXPECT_EQ(counts.most(), 0u);
    return;
  }
  source.Fill(0, kSize, 5);
  const std::uint32_t count = limit + 3;
  const Memory& sink = reader.actor().Scratch();
  // Both scratch memories are allocated before one of the processes is stopped.
  target.Scratch();
  // A device answers Reads even when its process is stopped, and does not count them.
  const bool held = !w.verbs();
  if (held) {
    // Only the target answers Reads of ordinary memory behind a window. The reader itself copies from other
    // memory of a process that is stopped, with no Read in flight.
    const Qp& owner = active ? link.pq : link.aq;
    const Window window = target.CreateWindow();
    ASSERT_ND(owner.BindWindow(99, source, window, 0, kSize, kOpAllowRead), SUCCESS);
    ASSERT_ND(owner.cq.Next(), SUCCESS);
    source.token = window.token();
    target.process().Pause();
  }
  for (std::uint32_t i = 0; i < count; ++i) {
    EXPECT_ND(reader.Read(100 + i, source, 0, kSize, kSink + i * kSize), SUCCESS);
  }
  if (held) {
    EXPECT_TRUE(Eventually([&] { return counts.now() == limit; })) << counts.now() << " in flight";
    target.process().Resume();
  }
  for (std::uint32_t i = 0; i < count; ++i) {
    const Work work = reader.cq.Next();
    ASSERT_ND(work, SUCCESS);
    EXPECT_EQ(work.context, 100 + i) << "Reads complete in order";
    EXPECT_TRUE(sink.Check(kSink + i * kSize, kSize, 5));
  }
  if (!held) return;
  EXPECT_EQ(counts.most(), limit);
  EXPECT_TRUE(Eventually([&] { return counts.now() == 0; }));
}

// A device may have smaller limits than a row sets.
void ClampToDevice(World& w, Row* row) {
  const AdapterInfo a = w.A().Info(), p = w.P().Info();
  const std::uint32_t most = std::max({a.max_inbound_read_limit, a.max_outbound_read_limit,
                                       p.max_inbound_read_limit, p.max_outbound_read_limit});
  for (ReadLimits* limits : {&row->passive_sees, &row->active_final, &row->passive_final}) {
    *limits = {std::min(limits->inbound, most), std::min(limits->outbound, most)};
  }
}

void RunRow(Transport transport, Row row) {
  WorldOptions options;
  if (row.active_caps == row.passive_caps) {
    options.adapter = Caps(row.active_caps);
  } else {
    options.adapter_a = Caps(row.active_caps);
    options.adapter_p = Caps(row.passive_caps);
    options.apart = true;
  }
  World w(transport, options);
  ASSERT_EQ(w.error(), "");
  ClampToDevice(w, &row);
  constexpr std::uint32_t kDepth = 300;
  Link link = w.Incoming({.connect = {.limits = row.connect},
                          .aq = w.A().CreateQp({.initiator_depth = kDepth}),
                          .pq = w.P().CreateQp({.initiator_depth = kDepth})});
  EXPECT_EQ(LimitsOf(link.p), row.passive_sees);
  w.Reply(link, {.limits = row.accept});
  if (w.one_phase()) {  // The limit of the accepting side may have been raised to the request
                        // (EXCEPTIONS.md).
    row.active_final.outbound = std::clamp(LimitsOf(link.a).outbound, row.active_final.outbound,
                                           std::max(row.connect.outbound, row.active_final.outbound));
  }
  EXPECT_EQ(LimitsOf(link.a), row.active_final);
  w.Complete(link);
  EXPECT_EQ(LimitsOf(link.a), row.active_final);
  EXPECT_EQ(LimitsOf(link.p), row.passive_final);
  ExpectReads(w, link, true, row.active_final.outbound);
  ExpectReads(w, link, false, row.passive_final.outbound);
  // The reads that confirm deliveries must stay within the limits too.
  w.ExpectTraffic(link);
  EXPECT_LE(ReadCounts(w, link, true).most(), row.active_final.outbound);
  EXPECT_LE(ReadCounts(w, link, false).most(), row.passive_final.outbound);
}

TEST_P(D06Own, ND_116_Row1) {
  RunRow(GetParam(), {"1", {16, 16}, {16, 16}, {16, 16}, {16, 16}, {16, 16}, {16, 16}, {16, 16}});
}
TEST_P(D06Own, ND_117_Row2) {
  RunRow(GetParam(), {"2", {16, 16}, {0, 8}, {16, 16}, {16, 0}, {8, 0}, {0, 8}, {8, 0}});
}
TEST_P(D06Own, ND_118_Row3) {
  RunRow(GetParam(), {"3", {4, 4}, {100, 100}, {16, 1}, {100, 100}, {4, 1}, {1, 4}, {4, 1}});
}
TEST_P(D06Own, ND_119_Row4) {
  RunRow(GetParam(), {"4", {16, 128}, {1, 200}, {64, 16}, {32, 10}, {64, 1}, {1, 32}, {32, 1}});
}
TEST_P(D06Own, ND_120_Row5) {
  RunRow(GetParam(), {"5", {16, 16}, {0, 0}, {16, 16}, {5, 5}, {0, 0}, {0, 0}, {0, 0}});
}
TEST_P(D06Own, ND_121_Row6) {
  RunRow(GetParam(), {"6", {16, 16}, {8, 8}, {16, 16}, {0, 0}, {8, 8}, {0, 0}, {0, 0}});
}
TEST_P(D06Own, ND_122_Row7) {
  RunRow(GetParam(), {"7", {0, 16}, {9, 9}, {16, 16}, {9, 9}, {9, 0}, {0, 9}, {9, 0}});
}
TEST_P(D06Own, ND_123_Row8) {
  RunRow(GetParam(), {"8", {16, 16}, {3, 12}, {8, 2}, {4, 1}, {8, 2}, {1, 4}, {4, 1}});
}
TEST_P(D06Own, ND_124_Row9) {
  RunRow(GetParam(),
         {"9", {255, 255}, {4000, 4000}, {255, 255}, {4000, 4000}, {255, 255}, {255, 255}, {255, 255}});
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

TEST_P(D06, ND_126_ActiveRejectsLimits) {
  ND_NEEDS_TWO_PHASES("126");
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
  EXPECT_EQ(before, (ReadLimits{2, w.one_phase() ? 9u : 5u}));  // EXCEPTIONS.md
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
  const Qp aq = w.Again(first.aq);
  const Link second = w.Incoming({.connect = {.limits = {7, 2}}, .aq = aq, .a = first.a, .l = first.l});
  EXPECT_EQ(LimitsOf(second.p), (ReadLimits{2, 7}));
}

}  // namespace
}  // namespace nd::conformance
