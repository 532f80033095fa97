// SPDX-License-Identifier: Apache-2.0
// Thousands of random operations, honest and hostile, over two hosts, with deaths, lost messages, disabled
// adapters and jumps of time. Invariants are checked after every event; two runs give the same trace.
#include <cstdlib>

#include "daemon/core/core_harness.h"
#include "daemon/core/prng.h"

namespace nd::core {
namespace {

class Chaos {
 public:
  Chaos(std::uint64_t seed, bool reserve_ports)
      : prng_(seed), world_(2, MakeSettings(seed), {}, 1 + static_cast<std::uint32_t>(seed % 5)) {
    world_.keep_trace = true;
    world_.reclaim_at_once = false;
    world_.open_ahead = seed % 2 == 0;
    if (reserve_ports) {
      for (int h : {0, 1}) {
        auto d = world_.broker(h).Adapters()[0].description;
        auto other = world_.broker(h).Adapters()[1].description;
        d.reserve_ports = true;
        world_.Step(h, AdaptersChanged{{d, other}});
      }
      world_.reserve_answers[6001] = StatusCode::kSharingViolation;
      for (std::uint16_t p = 50000; p < 50020; ++p) world_.reserve_answers[p] = StatusCode::kSharingViolation;
    }
  }

  std::string Run(int steps) {
    for (int i = 0; i < steps && !::testing::Test::HasFailure(); ++i) OneStep();
    MendAll();
    for (const World::Client& c : clients_) world_.Die(c);
    for (int h : {0, 1}) {
      while (world_.broker(h).reclaiming()) world_.Step(h, ReclaimSome{});
    }
    for (int h : {0, 1}) {
      AuditRecords(h);
      for (const PortRow& row : world_.broker(h).Ports()) {
        EXPECT_EQ(row.kind, "reservation");
        world_.Step(h, ReleasePort{row.local});
      }
      EXPECT_TRUE(world_.broker(h).Ports().empty());
      EXPECT_TRUE(world_.broker(h).Connections().empty());
      EXPECT_FALSE(world_.broker(h).OldestPending().has_value());
      EXPECT_FALSE(world_.broker(h).NextDeadline().has_value());
    }
    return world_.trace();
  }
  std::uint64_t established() const { return world_.broker(0).counters().connect; }

 private:
  static Settings MakeSettings(std::uint64_t seed) {
    Settings s;
    s.max_handshakes_in_flight = 2 + static_cast<std::uint32_t>(seed % 4);
    s.max_backlog = 3;
    s.ephemeral_first = 50000;
    s.ephemeral_last = 50039;
    s.allow_same_owner_bind_sharing = seed % 2 == 1;
    if (seed % 3 == 0) s.establish_timeout = std::chrono::seconds(20);
    return s;
  }

  std::uint32_t Below(std::uint32_t n) { return prng_.Below(n); }
  World::Client& AnyClient() { return clients_[Below(static_cast<std::uint32_t>(clients_.size()))]; }
  // Usually a handle of this client, sometimes of another one, sometimes invented.
  Handle AnyHandle(std::vector<Handle>& own) {
    if (own.empty() || Below(20) == 0) {
      return Below(3) == 0 || all_.empty() ? Handle{prng_.Next()}
                                           : all_[Below(static_cast<std::uint32_t>(all_.size()))];
    }
    const auto size = static_cast<std::uint32_t>(own.size());
    return own[size - 1 - Below(std::min(size, 6u))];
  }
  Address Local(int host) {
    static const std::vector<std::string> kIps = {"10.0.%.1", "10.0.%.1", "10.0.%.2",
                                                  "0.0.0.0",  "10.1.%.1", "9.9.9.9"};
    std::string ip = kIps[Below(6)];
    if (const auto at = ip.find('%'); at != std::string::npos) ip.replace(at, 1, std::to_string(host));
    static const std::uint16_t kPorts[] = {0, 0, 6000, 6001, 7000, 7001};
    return Ip(ip).WithPort(kPorts[Below(6)]);
  }
  Address Remote() {
    Address a = Ip("10.0." + std::to_string(Below(3)) + "." + std::to_string(1 + Below(2)));
    if (Below(25) == 0) a = Ip("0.0.0.0");
    return a.WithPort(static_cast<std::uint16_t>(7000 + Below(2)));
  }
  struct Own {
    std::vector<Handle> qps, connectors, listeners, endpoints;
  };
  void Remember(std::vector<Handle>& list, Handle handle) {
    if (!handle) return;
    list.push_back(handle);
    all_.push_back(handle);
  }

  // Checks that every connection has records of its establishment and its end, and every attempt of its end,
  // in order.
  void AuditRecords(int host) {
    std::map<Handle, bool> up;  // Established and not ended.
    std::uint64_t established = 0, ended = 0;
    for (const ConnectionRecord& record : world_.Seen<ConnectionRecord>(host)) {
      Time last = record.phases.began;
      for (std::size_t i = 0; i < kPhases; ++i) {
        if (!record.phases.ended[i]) continue;
        EXPECT_LE(last, *record.phases.ended[i]) << PhaseName(static_cast<Phase>(i));
        last = *record.phases.ended[i];
        const bool of_passive = i >= static_cast<std::size_t>(Phase::kDeliver);
        EXPECT_TRUE(static_cast<Phase>(i) == Phase::kEstablish || of_passive == record.passive);
      }
      if (record.outcome == ConnectionRecord::Outcome::kEstablished) {
        ++established;
        EXPECT_TRUE(up.insert({record.id, true}).second) << "established twice";
        continue;
      }
      ++ended;
      EXPECT_EQ(up.erase(record.id) == 1, record.established.has_value());
      EXPECT_EQ(record.phases.ended[static_cast<std::size_t>(Phase::kEstablish)], record.established);
      if (!record.ended) {
        ADD_FAILURE() << "no end";
        continue;
      }
      EXPECT_LE(last, *record.ended);
    }
    EXPECT_TRUE(up.empty()) << "an end was not told";
    std::uint64_t connected = 0, connecting = 0;
    for (const Notice& notice : world_.Seen<Notice>(host)) {
      connected += notice.type == "connection.connected" ? 1 : 0;
      connecting += notice.type == "connection.connecting" ? 1 : 0;
    }
    EXPECT_EQ(established, connected);
    EXPECT_GE(ended, connecting);
  }

  // An honest connection, abandoned at a random point.
  void HonestFlow() {
    const auto size = static_cast<std::uint32_t>(clients_.size());
    const std::uint32_t an = Below(size), pn = Below(size);
    const World::Client a = clients_[an], p = clients_[pn];
    const std::string at = "10.0." + std::to_string(p.host) + ".2:" + std::to_string(7100 + Below(200));
    const Handle l = world_.Call(p, CreateListenerOp{p.adapter}).reply.handle;
    Remember(own_[pn].listeners, l);
    world_.Submit(p, ListenOp{l, Below(3), Ip(at), false});
    const Handle aq = world_.Qp(a), pq = world_.Qp(p), ac = world_.Connector(a), pc = world_.Connector(p);
    Remember(own_[an].qps, aq);
    Remember(own_[pn].qps, pq);
    Remember(own_[an].connectors, ac);
    Remember(own_[pn].connectors, pc);
    ConnectOp connect;
    connect.connector = ac;
    connect.queue_pair = aq;
    connect.remote = Ip(at);
    connect.source = Ip("10.0." + std::to_string(a.host) + ".1:0");
    world_.Submit(a, connect);
    if (Below(8) == 0) return;
    world_.Submit(p, GetConnectionRequestOp{l, pc});
    if (Below(8) == 0) return;
    world_.Submit(p, AcceptOp{pc, pq, {4, 4}, {}, 0, Below(2) == 0});
    if (Below(8) == 0) return;
    world_.Submit(a, CompleteConnectOp{ac, Below(2) == 0});
    if (Below(2) == 0) world_.Submit(p, NotifyDisconnectOp{pc});
    if (Below(3) == 0) world_.Submit(a, DisconnectOp{ac});
    // Listeners that remain would hold the few ephemeral ports.
    if (Below(3) == 0) return;
    for (const Handle mine : {ac, aq}) world_.Submit(a, CloseOp{mine, Below(2) == 0});
    for (const Handle mine : {pc, pq, l}) world_.Submit(p, CloseOp{mine, Below(2) == 0});
  }

  void OneStep() {
    // Time must advance, or handshakes that wait for an application would hold their places for ever. Faults
    // must end, or they would fill most of a run.
    if (Below(4) == 0) world_.Advance(std::chrono::milliseconds(Below(400)));
    if (fault_steps_ > 0 && --fault_steps_ == 0) MendAll();
    if (Below(4) == 0) world_.Step(static_cast<int>(Below(2)), ReclaimSome{});
    if (clients_.size() < 4 || Below(150) == 0) {
      const int host = static_cast<int>(Below(2));
      clients_.push_back(world_.Open(host, 1000 + Below(2), 100 + Below(3)));
      own_.emplace_back();
      if (clients_.size() > 8) {
        const std::uint32_t victim = Below(8);
        world_.Die(clients_[victim]);
        clients_.erase(clients_.begin() + victim);
        own_.erase(own_.begin() + victim);
      }
    }
    if (Below(10) == 0) {
      HonestFlow();
      return;
    }
    const std::uint32_t who = Below(static_cast<std::uint32_t>(clients_.size()));
    World::Client& c = clients_[who];
    Own& o = own_[who];
    const Bytes data(Below(8) == 0 ? Below(260) : 4, 7);
    const auto length = static_cast<std::uint32_t>(data.size()) + (Below(30) == 0 ? 1 : 0);
    const auto op = [&](Operation what) { world_.Submit(c, std::move(what)); };
    switch (Below(34)) {
      case 0:
      case 1:
        Remember(o.qps, world_.Qp(c));
        break;
      case 2:
      case 3:
      case 4:
        Remember(o.connectors, world_.Connector(c));
        break;
      case 5:
        Remember(o.listeners, world_.Call(c, CreateListenerOp{c.adapter}).reply.handle);
        break;
      case 6:
        Remember(o.endpoints, world_.Call(c, CreateSharedEndpointOp{c.adapter, Local(c.host)}).reply.handle);
        break;
      case 7:
        op(BindOp{AnyHandle(o.connectors), Local(c.host)});
        break;
      case 8:
        op(BindOp{AnyHandle(o.listeners), Local(c.host)});
        break;
      case 9:
        op(ListenOp{AnyHandle(o.listeners), Below(4), {}, Below(4) == 0});
        break;
      case 10:
        op(ListenOp{AnyHandle(o.listeners), 0, Local(c.host), Below(2) == 0});
        break;
      case 11:
      case 12:
      case 13:
      case 14:
      case 15: {
        ConnectOp connect;
        connect.connector = AnyHandle(o.connectors);
        connect.queue_pair = AnyHandle(o.qps);
        connect.remote = Remote();
        connect.limits = {Below(20), Below(20)};
        connect.private_data = data;
        connect.private_data_length = length;
        const std::uint32_t dialect = Below(4);
        if (dialect == 1 || dialect == 2) connect.source = Local(c.host);
        if (dialect == 3) connect.shared_endpoint = AnyHandle(o.endpoints);
        op(connect);
        break;
      }
      case 16:
      case 17:
        op(GetConnectionRequestOp{AnyHandle(o.listeners), AnyHandle(o.connectors)});
        break;
      case 18:
      case 19:
      case 20:
        op(AcceptOp{AnyHandle(o.connectors), AnyHandle(o.qps), {Below(20), 4}, data, length, Below(2) == 0});
        break;
      case 21:
      case 22:
      case 23:
        op(CompleteConnectOp{AnyHandle(o.connectors), Below(2) == 0});
        break;
      case 24:
        op(RejectOp{AnyHandle(o.connectors), data, length});
        break;
      case 25:
        op(DisconnectOp{AnyHandle(o.connectors)});
        break;
      case 26:
        op(NotifyDisconnectOp{AnyHandle(o.connectors)});
        break;
      case 27:
        op(CancelOp{AnyHandle(Below(2) == 0 ? o.connectors : o.listeners)});
        break;
      case 28: {
        std::vector<Handle>* lists[] = {&o.qps,        &o.connectors, &o.connectors,
                                        &o.connectors, &o.listeners,  &o.endpoints};
        op(CloseOp{AnyHandle(*lists[Below(6)]), Below(2) == 0});
        break;
      }
      case 29:
        op(GetPrivateDataOp{AnyHandle(o.connectors)});
        break;
      case 30:
        op(TransportReportOp{AnyHandle(o.connectors),
                             static_cast<TransportReportOp::What>(Below(2)),
                             static_cast<DisconnectReason>(Below(12)),
                             {}});
        break;
      case 31: {
        ReattachOp back{c.adapter, AnyHandle(o.qps), Local(c.host), Remote(), {1, 1}, Below(2) == 0};
        if (Below(4) != 0) {
          back.proof = World::ProofOf({c.adapter_name, back.local, back.remote, back.passive, c.uid});
        }
        op(std::move(back));
        break;
      }
      case 32:
        op(ControlConnectEventsOp{AnyHandle(o.listeners), Below(2) == 0});
        break;
      case 33:
        Rare(c);
        break;
    }
  }

  void MendAll() {
    world_.wire_is_cut = false;
    world_.clients_answer = true;
    world_.fail_connects.reset();
    for (int h : {0, 1}) world_.Step(h, SetDraining{false});
  }

  void Rare(World::Client& c) {
    switch (Below(15)) {
      case 12:
        world_.Step(c.host,
                    ReservePort{Local(c.host), Below(2) == 0 ? std::optional(1000 + Below(2)) : std::nullopt,
                                "chaos"});
        break;
      case 13:
        world_.Step(c.host, ReleasePort{Local(c.host)});
        break;
      case 14:
        world_.Step(c.host, SetDraining{true});
        fault_steps_ = 1 + Below(kLongestFault);
        break;
      case 0:
        world_.wire_is_cut = true;
        fault_steps_ = 1 + Below(kLongestFault);
        break;
      case 1:
        world_.clients_answer = false;
        fault_steps_ = 1 + Below(kLongestFault);
        break;
      case 2:
        world_.Advance(std::chrono::seconds(Below(30)));
        break;
      case 3:
        world_.Step(c.host, SetAdapter{"a0", false});
        world_.Step(c.host, SetAdapter{"a0", true});
        break;
      case 4:
        world_.Step(
            c.host,
            KillConnection{all_.empty() ? Handle{} : all_[Below(static_cast<std::uint32_t>(all_.size()))]});
        break;
      case 5:
        world_.Step(c.host, CmLost{CmId{1 + Below(50)}, {StatusCode::kIoTimeout}, {}});
        break;
      case 6:
        world_.Step(c.host,
                    CmLost{CmId{provider::kInboundBit + Below(50)}, {StatusCode::kConnectionAborted}, data_});
        break;
      case 7:
        world_.Step(c.host, CmPeerClosed{CmId{1 + Below(200)}, DisconnectReason::kPeerBrokerLost});
        break;
      case 8:
        world_.Step(c.host, CmEstablished{CmId{provider::kInboundBit + Below(200)}});
        break;
      case 9:
        world_.Step(c.host, CmReplied{CmId{1 + Below(200)}, true, {99, 99}, {}});
        break;
      case 10:
        world_.fail_connects = Status(StatusCode::kHostUnreachable);
        fault_steps_ = 1 + Below(kLongestFault);
        break;
      case 11:
        // The event of a connection manager for a peer that did not answer.
        world_.Step(c.host, CmFailed{CmId{1 + Below(200)}, {StatusCode::kIoTimeout}});
        break;
    }
  }

  static constexpr std::uint32_t kLongestFault = 60;  // Steps.

  Prng prng_;
  World world_;
  std::uint32_t fault_steps_ = 0;
  std::vector<World::Client> clients_;
  std::vector<Own> own_;
  std::vector<Handle> all_;
  Bytes data_{1, 2, 3};
};

class Random : public ::testing::TestWithParam<std::uint64_t> {};

TEST_P(Random, InvariantsHoldAndTheTraceRepeats) {
  Chaos one(GetParam(), GetParam() % 3 == 1), two(GetParam(), GetParam() % 3 == 1);
  const std::string first = one.Run(3000);
  const std::string second = two.Run(3000);
  EXPECT_GT(one.established(), 20u);  // Not every attempt is refused.
  EXPECT_TRUE(first == second);
}
INSTANTIATE_TEST_SUITE_P(Seeds, Random, ::testing::Range<std::uint64_t>(1, 13));

}  // namespace
}  // namespace nd::core
