// SPDX-License-Identifier: Apache-2.0
// Measures the events per second of the core on one thread, with 50,000 established connections.
//   core_bench [live connections] [rounds]
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "daemon/core/broker.h"

namespace nd::core {
namespace {

Address Ip(std::uint8_t a, std::uint8_t b, std::uint16_t port) {
  return Address::V4({10, 0, a, b}, port);
}

Identity Client(std::uint32_t pid, const char* command) {
  Identity who;
  who.pid = pid;
  who.uid = who.gid = 1000;
  who.command = command;
  return who;
}

class Bench {
 public:
  Bench() : broker_(MakeOptions()) {
    Step(SessionOpened{kActive, Client(1, "a")});
    Step(SessionOpened{kPassive, Client(2, "p")});
    active_adapter_ = Call(kActive, OpenAdapterOp{});
    passive_adapter_ = Call(kPassive, OpenAdapterOp{});
    listener_ = Call(kPassive, CreateListenerOp{passive_adapter_});
    Call(kPassive, ListenOp{listener_, 0, Ip(0, 1, 7000), false});
  }

  struct Pair {
    Handle ac, aq, pc, pq;
  };

  Pair Up(std::uint32_t n) {
    Pair pair;
    pair.ac = Call(kActive, CreateConnectorOp{active_adapter_});
    pair.aq = Call(kActive, CreateQueuePairOp{active_adapter_, 16, 16, 0});
    pair.pc = Call(kPassive, CreateConnectorOp{passive_adapter_});
    pair.pq = Call(kPassive, CreateQueuePairOp{passive_adapter_, 16, 16, 0});
    // Explicit ports over four addresses leave room for more connections than one ephemeral range has.
    const Address local =
        Ip(0, static_cast<std::uint8_t>(2 + n / 60000), static_cast<std::uint16_t>(1024 + n % 60000));
    Call(kActive, BindOp{pair.ac, local});
    Call(kPassive, GetConnectionRequestOp{listener_, pair.pc});
    ConnectOp connect;
    connect.connector = pair.ac;
    connect.queue_pair = pair.aq;
    connect.remote = Ip(0, 1, 7000);
    connect.limits = {16, 16};
    Call(kActive, connect);
    Call(kPassive, AcceptOp{pair.pc, pair.pq, {16, 16}, {}, 0, false});
    Call(kActive, CompleteConnectOp{pair.ac, false});
    return pair;
  }

  void Down(const Pair& pair) {
    Call(kActive, DisconnectOp{pair.ac});
    Step(ClientOp{kActive, ++op_,
                  TransportReportOp{pair.ac, TransportReportOp::What::kDisconnectDone, {}, {}}});
    Step(ClientOp{
        kPassive, ++op_,
        TransportReportOp{
            pair.pc, TransportReportOp::What::kPeerClosed, DisconnectReason::kPeerDisconnected, {}}});
    Call(kPassive, DisconnectOp{pair.pc});
    Call(kActive, CloseOp{pair.ac, false});
    Call(kPassive, CloseOp{pair.pc, false});
    Call(kActive, CloseOp{pair.aq, false});
    Call(kPassive, CloseOp{pair.pq, false});
  }

  std::uint64_t events() const { return events_; }
  std::uint64_t up() const { return broker_.counters().active_connection; }

 private:
  static constexpr SessionId kActive{1}, kPassive{2};

  static Broker::Options MakeOptions() {
    Broker::Options options;
    provider::AdapterDescription d;
    d.info.name = "a0";
    d.info.max_receive_queue_depth = d.info.max_initiator_queue_depth = 1024;
    d.info.max_inbound_read_limit = d.info.max_outbound_read_limit = 16;
    for (std::uint8_t i = 1; i < 8; ++i) d.info.addresses.push_back(Ip(0, i, 0));
    options.adapters = {d};
    Rule rule;
    rule.name = "bench";
    rule.limits.connectors = rule.limits.queue_pairs = rule.limits.ports = 1u << 22;
    options.policy = Policy({rule});
    return options;
  }

  // Returns the handle of the created object, if any. The wire answers within the call.
  Handle Call(SessionId session, Operation op) {
    last_ = {};
    Step(ClientOp{session, ++op_, std::move(op)});
    return last_;
  }

  void Step(const Event& event) {
    ++events_;
    now_ += std::chrono::microseconds(6);
    Actions actions;
    broker_.Step(now_, event, &actions);
    while (broker_.NextDeadline() && *broker_.NextDeadline() <= now_) {
      ++events_;
      broker_.Step(now_, Tick{}, &actions);
    }
    for (const Action& action : actions) {
      if (const auto* complete = std::get_if<Complete>(&action)) {
        if (!complete->status.ok()) {
          std::fprintf(stderr, "core_bench: %s\n", complete->status.ToString().c_str());
          std::exit(1);
        }
        last_ = complete->reply.handle;
      } else if (const auto* connect = std::get_if<CmConnect>(&action)) {
        active_id_ = connect->params.id;
        provider::InboundRequest request;
        request.id = CmId{provider::kInboundBit | static_cast<std::uint64_t>(connect->params.id)};
        request.adapter = "a0";
        request.local = connect->params.remote;
        request.remote = connect->params.local;
        request.peer_offer = connect->params.offer;
        Step(CmRequested{request});
      } else if (const auto* accept = std::get_if<CmAccept>(&action)) {
        Step(CmReplied{active_id_, true, accept->params.limits, {}});
      } else if (const auto* confirm = std::get_if<CmConfirm>(&action)) {
        const CmId id = confirm->id;
        Step(CmEstablished{id});
        Step(CmEstablished{CmId{provider::kInboundBit | static_cast<std::uint64_t>(id)}});
      }
    }
  }

  Broker broker_;
  Time now_{std::chrono::seconds(1)};
  OpId op_ = 0;
  std::uint64_t events_ = 0;
  Handle active_adapter_, passive_adapter_, listener_, last_;
  CmId active_id_{};
};

double Seconds(std::chrono::steady_clock::time_point from) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - from).count();
}

int Main(int argc, char** argv) {
  const auto live = static_cast<std::uint32_t>(argc > 1 ? std::strtoul(argv[1], nullptr, 10) : 50000);
  const auto rounds = static_cast<std::uint32_t>(argc > 2 ? std::strtoul(argv[2], nullptr, 10) : 100000);
  Bench bench;
  auto start = std::chrono::steady_clock::now();
  for (std::uint32_t i = 0; i < rounds / 10; ++i) bench.Down(bench.Up(0));
  const double empty = static_cast<double>(bench.events()) / Seconds(start);
  start = std::chrono::steady_clock::now();
  std::uint64_t before = bench.events();
  for (std::uint32_t i = 0; i < live; ++i) bench.Up(i);
  const double filling = static_cast<double>(bench.events() - before) / Seconds(start);
  start = std::chrono::steady_clock::now();
  before = bench.events();
  for (std::uint32_t i = 0; i < rounds; ++i) bench.Down(bench.Up(live));
  const double full = static_cast<double>(bench.events() - before) / Seconds(start);
  std::printf(
      "empty: %.0f events/s, up to %u connections: %.0f events/s, with %llu ends up: %.0f events/s (%.1f "
      "M/min)\n",
      empty, live, filling, static_cast<unsigned long long>(bench.up()), full, full * 60 / 1e6);
  return 0;
}

}  // namespace
}  // namespace nd::core

int main(int argc, char** argv) {
  return nd::core::Main(argc, argv);
}
