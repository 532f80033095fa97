// SPDX-License-Identifier: Apache-2.0
// Every cell of the table of operations and states, on a live broker: inline result and new state.
#include <functional>
#include <map>

#include "daemon/core/connector_table.h"
#include "daemon/core/core_harness.h"

namespace nd::core {
namespace {

using enum ConnectorState;
using SC = StatusCode;

struct Cell {
  World world{2};
  World::Up up;
  World::Client c;
  Handle h, spare_qp;
};

// Returns a connector in the state, with its queue pair if it has one.
std::unique_ptr<Cell> Reach(ConnectorState state) {
  auto cell = std::make_unique<Cell>();
  World& w = cell->world;
  using Stage = World::Stage;
  const auto pair = [&](Stage stage, bool passive) {
    cell->up = w.Pair(stage);
    cell->c = passive ? cell->up.p : cell->up.a;
    cell->h = passive ? cell->up.pc : cell->up.ac;
  };
  switch (state) {
    case kUnbound:
      pair(Stage::kListening, false);
      cell->h = w.Connector(cell->c);
      break;
    case kBound:
      pair(Stage::kListening, false);
      break;
    case kWaiting:
      pair(Stage::kListening, true);
      cell->h = w.Connector(cell->c);
      w.Submit(cell->c, GetConnectionRequestOp{cell->up.listener, cell->h});
      break;
    case kConnecting:
      pair(Stage::kConnecting, false);
      break;
    case kReplied:
      pair(Stage::kReplied, false);
      break;
    case kCompleting:
      pair(Stage::kReplied, false);
      w.wire_is_cut = true;
      w.Submit(cell->c, CompleteConnectOp{cell->h, false});
      break;
    case kIncoming:
      pair(Stage::kIncoming, true);
      break;
    case kAccepting:
      pair(Stage::kReplied, true);
      break;
    case kConnected:
      pair(Stage::kConnected, false);
      break;
    case kPeerClosed:
      pair(Stage::kPeerClosed, true);
      break;
    case kDisconnecting:
      pair(Stage::kConnected, false);
      w.clients_answer = false;
      w.Submit(cell->c, DisconnectOp{cell->h});
      break;
    case kDead:
      pair(Stage::kPeerClosed, false);
      break;
  }
  cell->spare_qp = w.Qp(cell->c);
  EXPECT_EQ(w.State(cell->c, cell->h), state);
  return cell;
}

const std::vector<ConnectorState> kAll = {kUnbound,   kBound,      kWaiting,       kConnecting,
                                          kReplied,   kCompleting, kIncoming,      kAccepting,
                                          kConnected, kPeerClosed, kDisconnecting, kDead};

constexpr SC OK = SC::kSuccess, CI = SC::kConnectionInvalid, CA = SC::kConnectionActive,
             AAA = SC::kAddressAlreadyAssociated, IDS = SC::kInvalidDeviceState,
             ANA = SC::kAddressNotAssociated, CD = SC::kConnectionDisconnected, PE = SC::kPending;

using Ask = std::function<Operation(Cell&)>;

void Row(const char* name, const Ask& ask, const std::vector<SC>& want,
         const std::map<ConnectorState, ConnectorState>& moves = {}) {
  for (std::size_t i = 0; i < kAll.size(); ++i) {
    SCOPED_TRACE(std::string(name) + " in " + std::string(Name(kAll[i])));
    const std::unique_ptr<Cell> cell = Reach(kAll[i]);
    const OpId id = cell->world.Submit(cell->c, ask(*cell));
    EXPECT_EQ(cell->world.Code(cell->c, id), want[i]) << Name(cell->world.Code(cell->c, id));
    const auto move = moves.find(kAll[i]);
    EXPECT_EQ(cell->world.State(cell->c, cell->h), move == moves.end() ? kAll[i] : move->second);
  }
}

TEST(Table, Bind) {
  Row("Bind",
      [](Cell& c) {
        return BindOp{c.h, Ip(c.c.host == 0 ? "10.0.0.1:6500" : "10.0.1.1:6500")};
      },
      {OK, AAA, AAA, AAA, AAA, AAA, AAA, AAA, AAA, AAA, AAA, AAA}, {{kUnbound, kBound}});
}
TEST(Table, ConnectNd2) {
  Row("Connect",
      [](Cell& c) {
        ConnectOp op;
        op.connector = c.h;
        op.queue_pair = c.spare_qp;
        op.remote = Ip("10.0.1.1:7000");
        return op;
      },
      {ANA, PE, IDS, CA, CA, CA, CA, CA, CA, CA, CA, IDS}, {{kBound, kConnecting}});
}
TEST(Table, ConnectNdk) {
  Row("NdkConnect",
      [](Cell& c) {
        ConnectOp op;
        op.connector = c.h;
        op.queue_pair = c.spare_qp;
        op.remote = Ip("10.0.1.1:7000");
        op.source = Ip(c.c.host == 0 ? "10.0.0.1:6500" : "10.0.1.1:6500");
        return op;
      },
      {PE, IDS, IDS, CA, CA, CA, CA, CA, CA, CA, CA, IDS}, {{kUnbound, kConnecting}});
}
TEST(Table, CompleteConnect) {
  Row("CompleteConnect",
      [](Cell& c) {
        return CompleteConnectOp{c.h, false};
      },
      {CI, CI, CI, CI, OK, CI, CI, CI, CI, CI, CI, CI}, {{kReplied, kConnected}});
}
TEST(Table, Accept) {
  Row("Accept",
      [](Cell& c) {
        return AcceptOp{c.h, c.spare_qp, {1, 1}, {}, 0, false};
      },
      {CI, CI, CI, CI, CA, CA, PE, CA, CA, CA, CA, CI}, {{kIncoming, kAccepting}});
}
TEST(Table, Reject) {
  Row("Reject",
      [](Cell& c) {
        return RejectOp{c.h, {}, 0};
      },
      {CI, CI, CI, CI, OK, IDS, OK, IDS, IDS, IDS, IDS, CI}, {{kReplied, kDead}, {kIncoming, kDead}});
}
TEST(Table, GetReadLimits) {
  Row("GetReadLimits", [](Cell& c) { return GetReadLimitsOp{c.h}; },
      {CI, CI, CI, CI, OK, OK, OK, OK, OK, OK, CI, CI});
}
TEST(Table, GetPrivateData) {
  Row("GetPrivateData", [](Cell& c) { return GetPrivateDataOp{c.h}; },
      {CI, CI, CI, CI, OK, OK, OK, OK, OK, OK, CI, CI});
}
TEST(Table, GetLocalAddress) {
  Row("GetLocalAddress", [](Cell& c) { return GetLocalAddressOp{c.h}; },
      {CI, OK, CI, OK, OK, OK, OK, OK, OK, OK, OK, OK});
}
TEST(Table, GetPeerAddress) {
  Row("GetPeerAddress", [](Cell& c) { return GetPeerAddressOp{c.h}; },
      {CI, CI, CI, OK, OK, OK, OK, OK, OK, OK, OK, CI});
}
TEST(Table, NotifyDisconnect) {
  Row("NotifyDisconnect", [](Cell& c) { return NotifyDisconnectOp{c.h}; },
      {CI, CI, CI, CI, CI, CI, CI, CI, PE, OK, CD, CD});
}
TEST(Table, Disconnect) {
  Row("Disconnect", [](Cell& c) { return DisconnectOp{c.h}; },
      {CI, CI, CI, CI, CI, CI, CI, CI, OK, OK, CI, CI}, {{kConnected, kDead}, {kPeerClosed, kDead}});
}
TEST(Table, AsArgumentOfGetConnectionRequest) {
  Row("GetConnectionRequest",
      [](Cell& c) {
        const Handle l = c.world.Listener(c.c, c.c.host == 0 ? "10.0.0.2:7777" : "10.0.1.2:7777");
        return GetConnectionRequestOp{l, c.h};
      },
      {PE, CA, CA, CA, CA, CA, CA, CA, CA, CA, CA, CA}, {{kUnbound, kWaiting}});
}
TEST(Table, Cancel) {
  Row("Cancel", [](Cell& c) { return CancelOp{c.h}; }, {OK, OK, OK, OK, OK, OK, OK, OK, OK, OK, OK, OK},
      {{kWaiting, kUnbound},
       {kConnecting, kDead},
       {kCompleting, kDead},
       {kAccepting, kDead},
       {kDisconnecting, kDead}});
}

TEST(Table, CloseInEveryStateFreesEverything) {
  for (const ConnectorState state : kAll) {
    SCOPED_TRACE(Name(state));
    const std::unique_ptr<Cell> cell = Reach(state);
    World& w = cell->world;
    w.wire_is_cut = false;
    const OpId close = w.Submit(cell->c, CloseOp{cell->h, false});
    if (state == kDisconnecting) {
      EXPECT_EQ(w.Code(cell->c, close), SC::kPending);
      w.Advance(std::chrono::seconds(8));
    }
    EXPECT_EQ(w.Code(cell->c, close), OK);
    EXPECT_EQ(w.Try(cell->c, GetLocalAddressOp{cell->h}), SC::kInvalidHandle);  // ND_214
    EXPECT_EQ(w.Close(cell->c, cell->h), SC::kInvalidHandle);                   // ND_217
    for (const ConnectionRow& row : w.broker(cell->c.host).Connections()) EXPECT_NE(row.id, cell->h);
  }
}

// ND_219: the outcome at the peer when a client dies in each state.
TEST(Table, ND_219_ClientDeathInEveryState) {
  for (const ConnectorState state : kAll) {
    SCOPED_TRACE(Name(state));
    const std::unique_ptr<Cell> cell = Reach(state);
    World& w = cell->world;
    World::Up& up = cell->up;
    w.wire_is_cut = false;
    w.Die(cell->c);
    for (const ConnectionRow& row : w.broker(cell->c.host).Connections())
      EXPECT_NE(row.session, cell->c.session);
    switch (state) {
      case kReplied:
      case kCompleting:
        break;
      case kConnected:
        EXPECT_EQ(w.State(up.p, up.pc), kPeerClosed);
        break;
      case kIncoming:
        EXPECT_EQ(w.State(up.a, up.ac), kBound);
        break;
      case kAccepting:
        EXPECT_EQ(w.Try(up.a, CompleteConnectOp{up.ac, false}), SC::kConnectionAborted);  // ND_137
        break;
      default:
        break;
    }
    w.Die(up.a);
    w.Die(up.p);
    for (int host : {0, 1}) {
      EXPECT_TRUE(w.broker(host).Sessions().empty());
      EXPECT_TRUE(w.broker(host).Ports().empty());
      EXPECT_TRUE(w.broker(host).Listeners().empty());
      EXPECT_FALSE(w.broker(host).OldestPending().has_value());
      EXPECT_FALSE(w.broker(host).NextDeadline().has_value());
      EXPECT_EQ(w.broker(host).counters().active_connection, 0u);
    }
  }
}

TEST(Table, DeadColumnDependsOnTheCause) {
  ConnectorFlags f;
  EXPECT_EQ(Judge(ConnectorOp::kCompleteConnect, kDead, f), CI);
  f.withdrawn_replied = true;
  EXPECT_EQ(Judge(ConnectorOp::kCompleteConnect, kDead, f), SC::kConnectionAborted);
  EXPECT_EQ(Judge(ConnectorOp::kReject, kDead, f), SC::kConnectionAborted);
  f.completion_told = true;
  EXPECT_EQ(Judge(ConnectorOp::kCompleteConnect, kDead, f), CI);
  f = {};
  f.expired_replied = true;
  EXPECT_EQ(Judge(ConnectorOp::kCompleteConnect, kDead, f), SC::kIoTimeout);
  f = {};
  f.withdrawn_incoming = true;
  EXPECT_EQ(Judge(ConnectorOp::kAccept, kDead, f), SC::kConnectionAborted);
  EXPECT_EQ(Judge(ConnectorOp::kReject, kDead, f), SC::kConnectionAborted);
  EXPECT_EQ(Judge(ConnectorOp::kNotifyDisconnect, kDead, f), CI);
  f.was_connected = true;
  EXPECT_EQ(Judge(ConnectorOp::kNotifyDisconnect, kDead, f), CD);
  f.notify_success = true;
  EXPECT_EQ(Judge(ConnectorOp::kNotifyDisconnect, kDead, f), OK);
  EXPECT_EQ(Judge(ConnectorOp::kNotifyDisconnect, kDisconnecting, f), OK);
  EXPECT_EQ(Judge(ConnectorOp::kGetLocalAddress, kDead, {}), CI);
  EXPECT_EQ(Judge(ConnectorOp::kGetPrivateData, kBound, {}), CI);
  EXPECT_EQ(Judge(ConnectorOp::kGetPrivateData, kBound, {.refusal_data = true}), OK);
}

}  // namespace
}  // namespace nd::core
