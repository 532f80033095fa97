// SPDX-License-Identifier: Apache-2.0
// Objects that clients make ahead: an operation that has taken a spare is never refused, and a spare that is
// only offered never keeps anybody from anything.
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "daemon/core/core_harness.h"
#include "session/operations.h"

namespace nd::core {
namespace {

using SC = StatusCode;

constexpr SessionId kA{1}, kB{2}, kStranger{3};
constexpr std::uint32_t kUser = 1000;

class Spares : public testing::Test {
 protected:
  void Start(std::uint32_t limit, std::uint32_t max_objects = Broker::kMaxObjects) {
    broker_.reset();
    Broker::Options options;
    options.adapters = {TestAdapter("a0", {"10.0.0.1"})};
    options.policy = Limited(limit);
    options.max_objects = max_objects;
    options.spares = &board_;
    broker_ = std::make_unique<Broker>(std::move(options));
    for (const SessionId id : {kA, kB, kStranger}) {
      Identity who;
      who.uid = id == kStranger ? 77 : kUser;
      who.features = session::kClientSpares;
      Step(SessionOpened{id, who});
      adapters_[id] = Call(id, OpenAdapterOp{}).reply.handle;
    }
  }
  static Policy Limited(std::uint32_t limit) {
    Rule rule;
    rule.name = "few";
    rule.limits.connectors = rule.limits.queue_pairs = limit;
    return Policy({rule});
  }
  Actions Step(const Event& event) {
    Actions actions;
    broker_->Step(Time(std::chrono::hours(1)), event, &actions);
    EXPECT_EQ(broker_->CheckInvariants(), "");
    return actions;
  }
  Complete Call(SessionId id, Operation op) {
    for (const Action& action : Step(ClientOp{id, ++last_op_, std::move(op)})) {
      if (const auto* complete = std::get_if<Complete>(&action)) return *complete;
    }
    return {{0, StatusCode::kPending, {}}, id};
  }
  SC Try(SessionId id, Operation op) { return Call(id, std::move(op)).status.code(); }
  SC Connector(SessionId id, std::uint32_t spare = 0) {
    return Try(id, CreateConnectorOp{adapters_[id], spare});
  }
  SC QueuePair(SessionId id, std::uint32_t spare = 0) {
    return Try(id, CreateQueuePairOp{adapters_[id], 1, 1, 0, spare});
  }
  std::uint32_t TakeConnector(SessionId id) { return board_.Take(id, SpareKind::kConnector).first; }
  // The name of the object that the last operation made.
  Handle Name() const { return Handle::NameOf(last_op_); }
  std::uint32_t Used(Resource resource) const {
    return broker_->UsageOf(kUser)[static_cast<std::size_t>(resource)];
  }

  FakeBoard board_;
  std::unique_ptr<Broker> broker_;
  std::map<SessionId, Handle> adapters_;
  OpId last_op_ = 0;
};

TEST_F(Spares, AreOfferedFromTheFirstObjectOnAndAgainWhenOneIsUsed) {
  Start(100);
  EXPECT_EQ(QueuePair(kA), SC::kSuccess);
  EXPECT_EQ(board_.Offered(kA, SpareKind::kConnector), provider::kSpares);
  EXPECT_EQ(board_.Offered(kA, SpareKind::kQueuePair), provider::kSpares);
  EXPECT_EQ(board_.Offered(kB, SpareKind::kConnector), 0u);
  EXPECT_EQ(Used(Resource::kConnectors), 0u) << "an offer is no object";
  const std::uint32_t spare = TakeConnector(kA);
  EXPECT_EQ(board_.Offered(kA, SpareKind::kConnector), provider::kSpares - 1);
  EXPECT_EQ(Connector(kA, spare), SC::kSuccess);
  EXPECT_EQ(board_.Offered(kA, SpareKind::kConnector), provider::kSpares);
  EXPECT_EQ(Used(Resource::kConnectors), 1u);
  EXPECT_EQ(broker_->Connections().size(), 1u) << "offers are not listed";
}

TEST_F(Spares, AQueuePairHasTheCounterSlotThatWasOffered) {
  Start(1000);
  ASSERT_EQ(QueuePair(kA), SC::kSuccess);
  const auto [number, value] = board_.Take(kA, SpareKind::kQueuePair);
  // Another one meanwhile must not get the slot.
  const Complete other = Call(kA, CreateQueuePairOp{adapters_[kA], 1, 1, 0, 0});
  EXPECT_NE(other.reply.counter_slot, value - 1);
  EXPECT_EQ(Call(kA, CreateQueuePairOp{adapters_[kA], 1, 1, 0, number}).reply.counter_slot, value - 1);
}

TEST_F(Spares, AreOfferedOnlyWithinThePagesThatTheClientHas) {
  Start(1000);
  const auto take = [this] { return board_.Take(kA, SpareKind::kQueuePair).first; };
  for (int i = 0; i < 252; ++i) ASSERT_EQ(QueuePair(kA, take()), SC::kSuccess);
  EXPECT_EQ(board_.Offered(kA, SpareKind::kQueuePair), 4u);
  for (const std::size_t left : {3u, 2u, 1u, 0u}) {
    ASSERT_EQ(QueuePair(kA, take()), SC::kSuccess);
    EXPECT_EQ(board_.Offered(kA, SpareKind::kQueuePair), left) << "the second page is the client's not yet";
  }
  ASSERT_EQ(QueuePair(kA), SC::kSuccess);
  EXPECT_EQ(board_.Offered(kA, SpareKind::kQueuePair), 4u);
}

TEST_F(Spares, AClientThatDoesNotKnowThemGetsNone) {
  Start(100);
  Identity who;
  who.uid = kUser;
  Step(SessionOpened{SessionId{9}, who});
  const Handle adapter = Call(SessionId{9}, OpenAdapterOp{}).reply.handle;
  EXPECT_EQ(Try(SessionId{9}, CreateQueuePairOp{adapter, 1, 1, 0, 0}), SC::kSuccess);
  EXPECT_EQ(board_.Offered(SessionId{9}, SpareKind::kQueuePair), 0u);
  board_.readable = false;  // Its page was never made.
  EXPECT_EQ(Connector(kA), SC::kSuccess);
  EXPECT_EQ(Connector(kA), SC::kSuccess);
}

TEST_F(Spares, TheQuotaIsExactWhateverIsOffered) {
  Start(10);
  ASSERT_EQ(Connector(kA), SC::kSuccess);
  ASSERT_GT(board_.Offered(kA, SpareKind::kConnector), 0u);
  for (int i = 0; i < 9; ++i) EXPECT_EQ(Connector(kB), SC::kSuccess) << i;
  EXPECT_EQ(Connector(kB), SC::kInsufficientResources);
  EXPECT_EQ(board_.Offered(kA, SpareKind::kConnector), 0u) << "withdrawn";
  EXPECT_EQ(Connector(kA), SC::kInsufficientResources);
  EXPECT_EQ(Used(Resource::kConnectors), 10u);
}

TEST_F(Spares, AnObjectThatIsMadeAheadIsNeverRefused) {
  Start(10);
  ASSERT_EQ(Connector(kA), SC::kSuccess);
  const std::uint32_t spare = TakeConnector(kA);
  ASSERT_NE(spare, 0u);
  for (int i = 0; i < 8; ++i) EXPECT_EQ(Connector(kB), SC::kSuccess) << i;
  EXPECT_EQ(Connector(kB), SC::kInsufficientResources) << "the client of the other session has taken one";
  EXPECT_EQ(Connector(kA, spare), SC::kSuccess);
  EXPECT_EQ(Used(Resource::kConnectors), 10u);
}

TEST_F(Spares, ANumberThatIsNoSpareIsAnOrdinaryObject) {
  Start(1);
  EXPECT_EQ(Connector(kA, 1), SC::kSuccess);
  EXPECT_EQ(Try(kA, BindOp{Name(), Ip("10.0.0.1:6000")}), SC::kSuccess);
  for (const std::uint32_t number : {1u, 4u, 5u, ~0u}) {
    EXPECT_EQ(Connector(kA, number), SC::kInsufficientResources) << number;
  }
}

TEST_F(Spares, OperationsNameAnObjectByTheOperationThatMadeIt) {
  Start(100);
  ASSERT_EQ(QueuePair(kA), SC::kSuccess);
  ASSERT_EQ(Connector(kA, TakeConnector(kA)), SC::kSuccess);
  const Handle connector = Name();
  ASSERT_EQ(QueuePair(kA, board_.Take(kA, SpareKind::kQueuePair).first), SC::kSuccess);
  const Handle queue_pair = Name();
  EXPECT_EQ(Try(kB, BindOp{connector, Ip("10.0.0.1:6000")}), SC::kInvalidHandle)
      << "a name is of one session";
  EXPECT_EQ(Try(kA, BindOp{connector, Ip("10.0.0.1:6000")}), SC::kSuccess);
  ConnectOp connect;
  connect.connector = connector;
  connect.queue_pair = queue_pair;
  connect.remote = Ip("10.0.0.9:7000");
  EXPECT_EQ(Try(kA, connect), SC::kPending);
  EXPECT_EQ(broker_->QueuePairs()[1].connection, broker_->Connections()[0].id);
  EXPECT_EQ(Try(kA, CancelOp{connector}), SC::kCanceled) << "the Connect completes first";
  EXPECT_EQ(Try(kA, CloseOp{connector}), SC::kSuccess);
  EXPECT_EQ(Try(kA, BindOp{connector, Ip("10.0.0.1:6000")}), SC::kInvalidHandle)
      << "the name ends with the object";
  EXPECT_EQ(Try(kA, CloseOp{Handle::NameOf(4242)}), SC::kInvalidHandle);
  EXPECT_EQ(Try(kA, CloseOp{Handle{1}}), SC::kInvalidHandle);
}

TEST_F(Spares, OnlyObjectsThatAreMadeAheadHaveNames) {
  Start(100);
  ASSERT_EQ(Connector(kA), SC::kSuccess);
  EXPECT_EQ(Try(kA, CloseOp{Name()}), SC::kInvalidHandle);
}

TEST_F(Spares, AnAdapterThatGoesAwayTakesThemAlong) {
  Start(100);
  ASSERT_EQ(QueuePair(kA), SC::kSuccess);
  const std::uint32_t connector = TakeConnector(kA);
  const std::uint32_t queue_pair = board_.Take(kA, SpareKind::kQueuePair).first;
  Step(SetAdapter{"a0", false});
  EXPECT_EQ(board_.Offered(kA, SpareKind::kConnector), 0u);
  EXPECT_EQ(board_.Offered(kA, SpareKind::kQueuePair), 0u);
  // As if they had been made just before.
  EXPECT_EQ(Connector(kA, connector), SC::kSuccess);
  const Handle made = Name();
  EXPECT_EQ(QueuePair(kA, queue_pair), SC::kSuccess);
  EXPECT_EQ(Try(kA, BindOp{made, Ip("10.0.0.1:6000")}), SC::kDeviceRemoved);
  Step(SetAdapter{"a0", true});
  EXPECT_EQ(Try(kA, BindOp{made, Ip("10.0.0.1:6000")}), SC::kDeviceRemoved);
  EXPECT_EQ(Try(kA, CloseOp{made}), SC::kSuccess);
}

TEST_F(Spares, NewLimitsWithdrawThem) {
  Start(100);
  ASSERT_EQ(Connector(kA), SC::kSuccess);
  Step(SettingsChanged{{}, Limited(1)});
  EXPECT_EQ(board_.Offered(kA, SpareKind::kConnector), 0u);
  EXPECT_EQ(Connector(kA), SC::kInsufficientResources);
}

TEST_F(Spares, EndWithTheirSession) {
  Start(10);
  ASSERT_EQ(Connector(kA), SC::kSuccess);
  ASSERT_NE(TakeConnector(kA), 0u);
  Step(SessionClosed{kA});
  for (int i = 0; i < 10; ++i) EXPECT_EQ(Connector(kB), SC::kSuccess) << i;
}

TEST_F(Spares, AWrongAdapterUsesOneUp) {
  Start(10);
  ASSERT_EQ(Connector(kA), SC::kSuccess);
  EXPECT_EQ(Try(kA, CreateConnectorOp{Handle{4242}, TakeConnector(kA)}), SC::kInvalidHandle);
  for (int i = 0; i < 9; ++i) EXPECT_EQ(Connector(kB), SC::kSuccess) << i;
}

TEST_F(Spares, ABadDepthUsesOneUp) {
  Start(10);
  ASSERT_EQ(QueuePair(kA), SC::kSuccess);
  const std::uint32_t spare = board_.Take(kA, SpareKind::kQueuePair).first;
  EXPECT_EQ(Try(kA, CreateQueuePairOp{adapters_[kA], 1 << 20, 1, 0, spare}), SC::kInvalidParameter5);
  for (int i = 0; i < 9; ++i) EXPECT_EQ(QueuePair(kB), SC::kSuccess) << i;
}

// The handles that are left belong to the objects that clients have taken, and to nobody while they are
// offered.
TEST_F(Spares, KeepTheirHandles) {
  Start(1000, 3 + 20);  // Each session has an adapter.
  ASSERT_EQ(Connector(kA), SC::kSuccess);
  ASSERT_GT(board_.Offered(kA, SpareKind::kConnector), 1u);
  const std::uint32_t spare = TakeConnector(kA);
  for (int i = 0; i < 18; ++i) EXPECT_EQ(Connector(kStranger), SC::kSuccess) << i;
  EXPECT_EQ(Connector(kStranger), SC::kInsufficientResources);
  EXPECT_EQ(Connector(kA, spare), SC::kSuccess);
  EXPECT_EQ(Connector(kA), SC::kInsufficientResources);
}

}  // namespace
}  // namespace nd::core
