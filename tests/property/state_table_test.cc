// SPDX-License-Identifier: Apache-2.0
// The table of operations and states, cell by cell: a random path into each state, then every operation. The
// reference model checks the core.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <array>
#include <memory>
#include <string>

#include "tests/sim/model.h"

namespace nd::sim {
namespace {

using core::Handle;
using State = Model::State;
using Operation = Model::Operation;

Address Ip(const std::string& text) {
  return Address::Parse(text).value();
}

bool Coin() {
  return *rc::gen::arbitrary<bool>();
}

// One broker and its model. The test plays the client and the wire.
class Bench {
 public:
  Bench() {
    settings.establish_timeout = std::chrono::seconds(10);
    settings.notify_success_on_local_disconnect = Coin();
    settings.accept_refused_on_reject = Coin();
    provider::AdapterDescription d;
    d.info.name = "a0";
    d.info.addresses = {Ip("10.0.0.1"), Ip("10.0.0.2")};
    d.info.max_inbound_read_limit = d.info.max_outbound_read_limit = 16;
    d.info.max_caller_data = d.info.max_callee_data = 64;
    core::Broker::Options options;
    options.settings = settings;
    options.adapters = {d};
    broker = std::make_unique<core::Broker>(options);
    Model::Options model_options;
    model_options.settings = settings;
    model_options.adapters = {d};
    model = std::make_unique<Model>(std::move(model_options));
    core::Identity who;
    who.uid = who.pid = 1000;
    Event(core::SessionOpened{kSession, who});
    core::OpenAdapterOp open;
    open.name = "a0";
    adapter = Call(open).reply.handle;
  }

  void Event(const core::Event& event) {
    actions.clear();
    broker->Step(now, event, &actions);
    const std::string wrong = model->Step(now, event, actions, Tables(*broker));
    if (!wrong.empty()) RC_FAIL(wrong);
    RC_ASSERT(broker->CheckInvariants() == "");
    for (const core::Action& action : actions) {
      if (const auto* c = std::get_if<core::Complete>(&action)) done[c->op_id] = *c;
      if (const auto* c = std::get_if<core::CmConnect>(&action)) last_id = c->params.id;
    }
  }
  core::OpId Submit(session::Operation op) {
    const core::OpId id = next++;
    Event(core::ClientOp{kSession, id, std::move(op)});
    return id;
  }
  // Returns PENDING when the operation has not completed.
  core::Complete Call(session::Operation op) {
    const core::OpId id = Submit(std::move(op));
    const auto found = done.find(id);
    if (found != done.end()) return found->second;
    core::Complete pending;
    pending.status = Status(StatusCode::kPending);
    return pending;
  }
  State StateOf(Handle connector) const {
    for (const core::ConnectionRow& row : broker->Connections()) {
      if (row.id == connector) return static_cast<State>(row.state);
    }
    return Model::X;
  }
  Handle Pair() { return Call(core::CreateQueuePairOp{adapter, 0, 0, 0}).reply.handle; }
  Handle Connector() { return Call(core::CreateConnectorOp{adapter}).reply.handle; }
  Handle Listening() {
    const Handle l = Call(core::CreateListenerOp{adapter}).reply.handle;
    RC_ASSERT(Call(core::ListenOp{l, 0, Ip("10.0.0.1:0"), false}).status.ok());
    return l;
  }
  core::ConnectOp ConnectFrom(Handle c, Handle q, int dialect) {
    core::ConnectOp op;
    op.connector = c;
    op.queue_pair = q;
    op.remote = Ip("10.9.9." + std::to_string(1 + next % 200) + ":7000");
    op.limits = {4, 4};
    if (dialect == 1) op.source = Ip("10.0.0.2:0");
    if (dialect == 2) {
      op.shared_endpoint = Call(core::CreateSharedEndpointOp{adapter, Ip("10.0.0.2:0")}).reply.handle;
    }
    return op;
  }
  void Request(Handle listener) {
    provider::InboundRequest r;
    r.id = provider::CmId{provider::kInboundBit | next_inbound++};
    last_id = r.id;
    r.adapter = "a0";
    r.remote = Ip("10.8.0.1:" + std::to_string(1000 + next_inbound));
    r.peer_offer = {3, 3};
    r.private_data = {1, 2};
    for (const core::ListenerRow& row : broker->Listeners()) {
      if (row.id == listener) r.local = row.local;
    }
    Event(core::CmRequested{r});
  }

  // Returns a connector in the state, reached by a random path.
  Handle Reach(State state) {
    switch (state) {
      case Model::U:
        return ReachUnbound();
      case Model::B:
        return ReachBound();
      case Model::W: {
        const Handle c = Connector();
        Submit(core::GetConnectionRequestOp{Listening(), c});
        return c;
      }
      case Model::C: {
        const int dialect = *rc::gen::inRange(0, 3);
        const Handle c = dialect == 0 ? ReachBound() : Connector();
        Submit(ConnectFrom(c, pair = Pair(), dialect));
        return c;
      }
      case Model::R: {
        const Handle c = Reach(Model::C);
        Event(core::CmReplied{last_id, Coin(), {2, 2}, {9}});
        return c;
      }
      case Model::K: {
        const Handle c = Reach(Model::R);
        Submit(core::CompleteConnectOp{c, Coin()});
        return c;
      }
      case Model::I: {
        const Handle l = Listening(), c = Connector();
        if (Coin()) {
          Request(l);
          Submit(core::GetConnectionRequestOp{l, c});
        } else {
          Submit(core::GetConnectionRequestOp{l, c});
          Request(l);
        }
        return c;
      }
      case Model::A: {
        const Handle c = Reach(Model::I);
        Submit(core::AcceptOp{c, pair = Pair(), {8, 8}, {7}, 1, Coin()});
        return c;
      }
      case Model::E: {
        const Handle c = Reach(Coin() ? Model::K : Model::A);
        Event(core::CmEstablished{last_id});
        return c;
      }
      case Model::P: {
        if (Coin()) {
          const Handle c = Reach(Coin() ? Model::K : Model::A);
          Event(core::CmPeerClosed{last_id, DisconnectReason::kPeerDisconnected});
          return c;
        }
        const Handle c = Reach(Model::E);
        Submit(core::TransportReportOp{
            c, core::TransportReportOp::What::kPeerClosed, DisconnectReason::kPeerProcessDied, {}});
        return c;
      }
      case Model::D: {
        const Handle c = Reach(Model::E);
        Submit(core::DisconnectOp{c});
        return c;
      }
      default:
        return ReachDead();
    }
  }

  static constexpr core::SessionId kSession{1};
  core::Settings settings;
  std::unique_ptr<core::Broker> broker;
  std::unique_ptr<Model> model;
  Time now{std::chrono::hours(1)};
  core::Actions actions;
  std::map<core::OpId, core::Complete> done;
  core::OpId next = 1;
  std::uint64_t next_inbound = 1;
  provider::CmId last_id{};
  Handle adapter, pair;

 private:
  Handle ReachUnbound() {
    const Handle c = Connector();
    switch (*rc::gen::inRange(0, 3)) {
      case 0:
        return c;
      case 1:
        Submit(core::GetConnectionRequestOp{Listening(), c});
        Submit(core::CancelOp{c});
        return c;
      default:
        Submit(ConnectFrom(c, Pair(), 1));
        Event(core::CmRejected{last_id,
                               {StatusCode::kConnectionRefused, "", Detail::kPeerRejected},
                               Coin() ? Bytes{5} : Bytes{}});
        return c;
    }
  }
  Handle ReachBound() {
    const Handle c = Connector();
    RC_ASSERT(Call(core::BindOp{c, Ip("10.0.0.1:0")}).status.ok());
    if (Coin()) return c;
    Submit(ConnectFrom(c, Pair(), 0));
    if (Coin()) {
      Event(core::CmFailed{last_id, {StatusCode::kHostUnreachable}});
    } else {
      Event(core::CmRejected{
          last_id, {StatusCode::kConnectionRefused, "", Detail::kPeerRejected}, Coin() ? Bytes{5} : Bytes{}});
    }
    return c;
  }
  Handle ReachDead() {
    const auto way = *rc::gen::inRange(0, 9);
    if (way < 3) {
      const Handle c = Reach(way == 0 ? Model::R : way == 1 ? Model::I : Model::A);
      const bool timeout = Coin();
      Event(core::CmLost{last_id,
                         timeout ? Status(StatusCode::kIoTimeout)
                                 : Status(StatusCode::kConnectionAborted, "", Detail::kPeerRejected),
                         Coin() ? Bytes{6} : Bytes{}});
      return c;
    }
    if (way == 3) {
      const Handle c = Reach(Model::R);
      now += std::chrono::seconds(11);
      Event(core::Tick{});
      return c;
    }
    if (way < 7) {
      constexpr State kFrom[] = {Model::C, Model::K, Model::A};
      const Handle c = Reach(kFrom[way - 4]);
      Submit(core::CancelOp{c});
      return c;
    }
    if (way == 7) {
      const Handle c = Reach(Model::P);
      Submit(core::DisconnectOp{c});
      return c;
    }
    const Handle c = Reach(Model::D);
    Submit(core::TransportReportOp{c, core::TransportReportOp::What::kDisconnectDone, {}, {}});
    return c;
  }
};

session::Operation Make(Bench& bench, Operation operation, Handle c) {
  switch (operation) {
    case Model::kBind:
      return core::BindOp{c, Ip("10.0.0.1:0")};
    case Model::kConnectNd2:
      return bench.ConnectFrom(c, bench.Pair(), 0);
    case Model::kConnectNdk:
      return bench.ConnectFrom(c, bench.Pair(), *rc::gen::inRange(1, 3));
    case Model::kComplete:
      return core::CompleteConnectOp{c, false};
    case Model::kAccept:
      return core::AcceptOp{c, bench.Pair(), {1, 1}, {}, 0, false};
    case Model::kReject:
      return core::RejectOp{c, {1}, 1};
    case Model::kLimits:
      return core::GetReadLimitsOp{c};
    case Model::kData:
      return core::GetPrivateDataOp{c};
    case Model::kLocal:
      return core::GetLocalAddressOp{c};
    case Model::kPeer:
      return core::GetPeerAddressOp{c};
    case Model::kNotify:
      return core::NotifyDisconnectOp{c};
    case Model::kDisconnect:
      return core::DisconnectOp{c};
    case Model::kGet:
      return core::GetConnectionRequestOp{bench.Listening(), c};
  }
  return core::ListAdaptersOp{};
}

// The model checks completion, state, ports and rows of every step; the test checks that the cell was
// reached.
class Cells : public ::testing::TestWithParam<int> {};

TEST_P(Cells, EveryOperationAnswersAsTheTableSays) {
  const auto state = static_cast<State>(GetParam());
  for (int o = 0; o < static_cast<int>(Model::kOperations); ++o) {
    const auto operation = static_cast<Operation>(o);
    const bool held =
        rc::check("operation " + std::to_string(o) + " in state " + std::to_string(GetParam()), [&] {
          Bench bench;
          const Handle c = bench.Reach(state);
          RC_ASSERT(bench.StateOf(c) == state);
          const session::Operation op = Make(bench, operation, c);
          RC_ASSERT(bench.StateOf(c) == state);
          const core::Complete first = bench.Call(op);
          // The table holds the answers that depend on the state alone.
          if (state != Model::X && operation != Model::kData) {
            Model::Flags flags;
            flags.notify_success = bench.settings.notify_success_on_local_disconnect;
            const StatusCode cell = Model::Table(operation, state, flags);
            if (cell != StatusCode::kSuccess) RC_ASSERT(first.status == cell);
          }
          // Repeats the operation, because the second answer has rules of its own.
          bench.Submit(op);
          bench.Submit(core::CloseOp{c, false});
          bench.Event(core::SessionClosed{Bench::kSession, {}});
          RC_ASSERT(bench.broker->Ports().empty());
          RC_ASSERT(!bench.broker->NextDeadline().has_value());
        });
    EXPECT_TRUE(held);
  }
}
INSTANTIATE_TEST_SUITE_P(States, Cells, ::testing::Range(0, static_cast<int>(Model::kStates)));

// Random walks over all events, checked by the model.
RC_GTEST_PROP(Walk, CoreAndModelAgreeAfterAnySequence, ()) {
  Bench bench;
  std::vector<Handle> connectors;
  const int steps = *rc::gen::inRange(1, 12);
  for (int i = 0; i < steps; ++i) {
    if (connectors.size() < 3 || *rc::gen::inRange(0, 4) == 0) {
      connectors.push_back(
          bench.Reach(static_cast<State>(*rc::gen::inRange(0, static_cast<int>(Model::kStates)))));
      continue;
    }
    const Handle c = *rc::gen::elementOf(connectors);
    const auto operation = static_cast<Operation>(*rc::gen::inRange(0, static_cast<int>(Model::kOperations)));
    switch (*rc::gen::inRange(0, 8)) {
      case 0:
        bench.Submit(core::CancelOp{c});
        break;
      case 1:
        bench.Submit(core::CloseOp{c, Coin()});
        break;
      case 2:
        if (bench.pair) bench.Submit(core::CloseOp{bench.pair, Coin()});
        break;
      case 3:
        bench.now += std::chrono::milliseconds(*rc::gen::inRange(1, 20000));
        bench.Event(core::Tick{});
        break;
      case 4:
        bench.Event(core::KillConnection{c});
        break;
      default:
        bench.Submit(Make(bench, operation, c));
    }
  }
  bench.Event(core::SessionClosed{Bench::kSession, {}});
  RC_ASSERT(bench.broker->Ports().empty());
}

}  // namespace
}  // namespace nd::sim
