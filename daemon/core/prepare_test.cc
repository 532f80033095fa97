// SPDX-License-Identifier: Apache-2.0
// The step that providers with device queue pairs put between Confirm or Accept and the connection.
#include <gtest/gtest.h>

#include "daemon/core/core_harness.h"

namespace nd::core {
namespace {

using Command = SendTransportCommand;
using Report = TransportReportOp;

std::vector<Command> Prepares(const World& w) {
  std::vector<Command> found;
  for (const Command& command : w.Seen<Command>()) {
    if (command.what == Command::What::kPrepare) found.push_back(command);
  }
  return found;
}

// The CompleteConnect of A is pending and the wire has not answered.
struct Completing {
  World w;
  World::Up up = w.Pair(World::Stage::kReplied);
  OpId op = 0;
  CmId id{};

  Completing() {
    w.ClearLog();
    w.wire_is_cut = true;
    op = w.Submit(up.a, CompleteConnectOp{up.ac});
    id = w.Seen<CmConfirm>().at(0).id;
  }
  StatusCode Answer(const Status& status) {
    return w.Try(up.a, Report{up.ac, Report::What::kPrepared, DisconnectReason::kUnknown, status});
  }
};

TEST(Prepare, GoesToTheClientAndItsAnswerToTheWire) {
  Completing c;
  c.w.Step(0, CmPrepare{c.id, Data("attributes")});
  ASSERT_EQ(Prepares(c.w).size(), 1u);
  EXPECT_EQ(Prepares(c.w)[0].connector, c.up.ac);
  EXPECT_EQ(Prepares(c.w)[0].attributes, Data("attributes"));
  EXPECT_TRUE(c.w.Seen<CmPrepared>().empty());
  EXPECT_EQ(c.Answer({}), StatusCode::kSuccess);
  ASSERT_EQ(c.w.Seen<CmPrepared>().size(), 1u);
  EXPECT_EQ(c.w.Seen<CmPrepared>()[0].id, c.id);
  EXPECT_TRUE(c.w.Seen<CmPrepared>()[0].status.ok());
  c.w.Step(0, CmEstablished{c.id});
  EXPECT_EQ(c.w.Code(c.up.a, c.op), StatusCode::kSuccess);
}

TEST(Prepare, AnswerWithoutAnIdHasNoCompletion) {
  Completing c;
  c.w.Step(0, CmPrepare{c.id, {}});
  const std::size_t answered = c.w.Seen<Complete>().size();
  c.w.Resubmit(c.up.a, 0, Report{c.up.ac, Report::What::kPrepared, DisconnectReason::kUnknown, {}});
  EXPECT_EQ(c.w.Seen<CmPrepared>().size(), 1u);
  EXPECT_EQ(c.w.Seen<Complete>().size(), answered);
  EXPECT_TRUE(c.w.Seen<EndSession>().empty());
  c.w.Resubmit(c.up.a, 0, GetPeerAddressOp{c.up.ac});  // Any other operation.
  EXPECT_EQ(c.w.Seen<EndSession>().size(), 1u);
}

TEST(Prepare, FailureKeepsItsStatus) {
  Completing c;
  c.w.Step(0, CmPrepare{c.id, {}});
  EXPECT_EQ(c.Answer({StatusCode::kInternalError, "the device refuses"}), StatusCode::kSuccess);
  ASSERT_EQ(c.w.Seen<CmPrepared>().size(), 1u);
  EXPECT_EQ(c.w.Seen<CmPrepared>()[0].status.code(), StatusCode::kInternalError);
}

TEST(Prepare, UnsolicitedAnswersHaveNoEffect) {
  Completing c;
  EXPECT_EQ(c.Answer({}), StatusCode::kSuccess);
  EXPECT_TRUE(c.w.Seen<CmPrepared>().empty()) << "before it was asked";
  c.w.Step(0, CmPrepare{c.id, {}});
  EXPECT_EQ(c.Answer({}), StatusCode::kSuccess);
  EXPECT_EQ(c.Answer({StatusCode::kInternalError}), StatusCode::kSuccess);
  EXPECT_EQ(c.w.Seen<CmPrepared>().size(), 1u) << "twice";
}

TEST(Prepare, LateAnswerAfterCancelHasNoEffect) {
  Completing c;
  c.w.Step(0, CmPrepare{c.id, {}});
  EXPECT_EQ(c.w.Try(c.up.a, CancelOp{c.up.ac}), StatusCode::kSuccess);
  EXPECT_EQ(c.w.Code(c.up.a, c.op), StatusCode::kCanceled);
  EXPECT_EQ(c.Answer({}), StatusCode::kSuccess);
  EXPECT_TRUE(c.w.Seen<CmPrepared>().empty());
}

TEST(Prepare, ClientCannotAnswerForAnother) {
  Completing c;
  c.w.Step(0, CmPrepare{c.id, {}});
  EXPECT_EQ(c.w.Try(c.up.p, Report{c.up.ac, Report::What::kPrepared, DisconnectReason::kUnknown, {}}),
            StatusCode::kInvalidHandle);
  EXPECT_TRUE(c.w.Seen<CmPrepared>().empty());
}

TEST(Prepare, IsIgnoredOutsideOfCompletingAndAccepting) {
  World w;
  w.Pair(World::Stage::kReplied);
  w.ClearLog();
  w.Step(0, CmPrepare{CmId{1}, Data("early")});
  w.Step(0, CmPrepare{CmId{77}, Data("unknown")});
  EXPECT_TRUE(Prepares(w).empty());
}

TEST(Prepare, PassiveSideIsAskedWhileItAccepts) {
  World w;
  const World::Up up = w.Pair(World::Stage::kIncoming);
  w.ClearLog();
  w.wire_is_cut = true;
  const OpId op = w.Submit(up.p, AcceptOp{up.pc, up.pq, {}, {}, 0, false});
  const CmId id = w.Seen<CmAccept>().at(0).id;
  w.Step(0, CmPrepare{id, Data("attributes")});
  ASSERT_EQ(Prepares(w).size(), 1u);
  EXPECT_EQ(Prepares(w)[0].session, up.p.session);
  EXPECT_EQ(w.Try(up.p, Report{up.pc, Report::What::kPrepared, DisconnectReason::kUnknown, {}}),
            StatusCode::kSuccess);
  ASSERT_EQ(w.Seen<CmPrepared>().size(), 1u);
  w.Step(0, CmEstablished{id});
  EXPECT_EQ(w.Code(up.p, op), StatusCode::kSuccess);
}

}  // namespace
}  // namespace nd::core
