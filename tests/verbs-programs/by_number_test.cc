// SPDX-License-Identifier: Apache-2.0
// Queue pairs connected by number, as a program of libibverbs sees them. by_number_test.sh runs it by 'ndctl
// run'.
#include <sched.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <thread>
#include <utility>

#include "tests/verbs-programs/number_end.h"

namespace nd::verbs_programs {
namespace {

constexpr auto kMoment = std::chrono::milliseconds(200);  // In which nothing must arrive.

TEST(ByNumber, NumbersAreValidAndDiffer) {
  std::set<std::uint32_t> numbers;
  for (int i = 0; i < 100; ++i) {
    End end;
    EXPECT_GT(end.number(), 1u);
    EXPECT_LT(end.number(), 0x800000u);
    EXPECT_TRUE(numbers.insert(end.number()).second) << "used again at once";
  }
}

TEST(ByNumber, DataFlowsBothWays) {
  End a, b;
  Connect(a, b);
  ExpectExchange(a, b, "there");
  ExpectExchange(b, a, "and back");
}

TEST(ByNumber, RequestsThatArePostedBeforeThePeerIsThereWait) {
  End a, b;
  ASSERT_EQ(a.Name(b.number()), 0);
  ASSERT_EQ(a.Receive(1), 0);
  ASSERT_EQ(a.Send(2, "early"), 0);
  EXPECT_FALSE(Next(a.sent, kMoment));
  ASSERT_EQ(b.Receive(3), 0);
  ASSERT_EQ(b.Name(a.number()), 0);
  EXPECT_EQ(StatusOf(b.received, 3), IBV_WC_SUCCESS);
  EXPECT_STREQ(b.text(), "early");
  EXPECT_EQ(StatusOf(a.sent, 2), IBV_WC_SUCCESS);
}

// While one lives, the threads of this process share one processor, and each keeps it until it sleeps or
// gives way.
class OneProcessor {
 public:
  OneProcessor() {
    sched_getaffinity(0, sizeof before_, &before_);
    cpu_set_t one;
    CPU_ZERO(&one);
    int first = 0;
    while (!CPU_ISSET(first, &before_)) ++first;
    CPU_SET(first, &one);
    good_ = CPU_COUNT(&before_) > 1 && SetAll(one, SCHED_FIFO, 1);  // The broker has the last one.
  }
  ~OneProcessor() { SetAll(before_, SCHED_OTHER, 0); }
  bool good() const { return good_; }

 private:
  static bool SetAll(const cpu_set_t& processors, int policy, int priority) {
    bool good = true;
    for (const auto& thread : std::filesystem::directory_iterator("/proc/self/task")) {
      const pid_t number = std::stoi(thread.path().filename());
      const sched_param parameter{priority};
      good = sched_setaffinity(number, sizeof processors, &processors) == 0 &&
             sched_setscheduler(number, policy, &parameter) == 0 && good;
    }
    return good;
  }

  cpu_set_t before_;
  bool good_ = false;
};

TEST(ByNumber, PollsGiveWayToTheThreadsThatConnect) {
  End a, b;
  const OneProcessor one;
  if (!one.good()) GTEST_SKIP() << "one processor, or a user that may not choose SCHED_FIFO";
  ASSERT_EQ(b.Receive(1), 0);
  Connect(a, b);
  ASSERT_EQ(a.Send(2, "at once"), 0);
  ibv_wc completion{};
  int got = 0;
  for (const auto until = Clock::now() + std::chrono::seconds(3); got == 0 && Clock::now() < until;)
    got = ibv_poll_cq(b.received, 1, &completion);
  EXPECT_EQ(got, 1);
  EXPECT_EQ(completion.status, IBV_WC_SUCCESS);
}

TEST(ByNumber, ReceiverMayStayInRtr) {
  End a, b;
  ibv_qp_attr attributes = End::Peer(a.number());
  ASSERT_EQ(ibv_modify_qp(b.queue_pair, &attributes, End::kToRtr), 0);
  ASSERT_EQ(a.Name(b.number()), 0);
  ExpectExchange(a, b, "to RTR");
}

// Each of the two ends may be the connecting one.
TEST(ByNumber, WithoutAPeerRequestsFailAfterAWhile) {
  End a, b;
  for (End* end : {&a, &b}) {
    const auto begin = Clock::now();
    ASSERT_EQ(end->Name(end == &a ? b.number() : a.number()), 0);
    ASSERT_EQ(end->Receive(1), 0);
    ASSERT_EQ(end->Send(2, "nobody"), 0);
    ASSERT_EQ(end->Send(3, "nobody"), 0);
    EXPECT_EQ(StatusOf(end->sent, 2), IBV_WC_RETRY_EXC_ERR);
    EXPECT_GE(Clock::now() - begin, std::chrono::milliseconds(4900));
    EXPECT_EQ(StatusOf(end->sent, 3), IBV_WC_WR_FLUSH_ERR);
    EXPECT_EQ(StatusOf(end->received, 1), IBV_WC_WR_FLUSH_ERR);
    EXPECT_EQ(end->queue_pair->state, IBV_QPS_ERR);
    ASSERT_EQ(end->To(IBV_QPS_RESET), 0);
    ASSERT_EQ(end->ToInit(), 0);
  }
  Connect(a, b);
  ExpectExchange(a, b, "after all");
}

// `uninvited` names `a`, which names `b`. The order of the three says who connects and who listens.
TEST(ByNumber, UninvitedPeerIsRefused) {
  std::array<std::size_t, 3> order{0, 1, 2};
  do {
    std::array<End, 3> ends;
    End &a = ends[order[0]], &b = ends[order[1]], &uninvited = ends[order[2]];
    ASSERT_EQ(a.Name(b.number()), 0);
    ASSERT_EQ(uninvited.Name(a.number()), 0);
    ASSERT_EQ(uninvited.Send(1, "let me in"), 0);
    ASSERT_EQ(a.Receive(2), 0);
    EXPECT_FALSE(Next(a.received, kMoment));
    ASSERT_EQ(b.Name(a.number()), 0);
    ASSERT_EQ(b.Send(3, "invited"), 0);
    EXPECT_EQ(StatusOf(a.received, 2), IBV_WC_SUCCESS);
    EXPECT_STREQ(a.text(), "invited");
    EXPECT_FALSE(Next(uninvited.sent, kMoment));
  } while (std::next_permutation(order.begin(), order.end()));
}

TEST(ByNumber, NumberOfAFormerQueuePairReachesNoOther) {
  End a, b;
  const std::uint32_t former = b.number() ^ 0x010000;  // The same port.
  ASSERT_EQ(a.Name(former), 0);
  ASSERT_EQ(b.Name(a.number()), 0);
  ASSERT_EQ(a.Send(1, "who?"), 0);
  EXPECT_EQ(StatusOf(a.sent, 1), IBV_WC_RETRY_EXC_ERR);
}

TEST(ByNumber, AfterThePeerIsDestroyedTheNextRequestFailsAndReceivesStay) {
  for (int i = 0; i < 2; ++i) {
    End a, b;
    End &left = i == 0 ? a : b, &stays = i == 0 ? b : a;
    Connect(a, b);
    ExpectExchange(left, stays, "hello");
    ASSERT_EQ(stays.Receive(4), 0);
    ASSERT_EQ(left.Send(5, "last words"), 0);
    EXPECT_EQ(StatusOf(left.sent, 5), IBV_WC_SUCCESS);
    ASSERT_EQ(stays.Receive(6), 0);
    left.Destroy();
    EXPECT_EQ(StatusOf(stays.received, 4), IBV_WC_SUCCESS);
    EXPECT_STREQ(stays.text(), "last words");
    EXPECT_FALSE(Next(stays.received, kMoment));
    EXPECT_EQ(stays.queue_pair->state, IBV_QPS_RTS);
    ASSERT_EQ(stays.Send(7, "anybody?"), 0);
    EXPECT_EQ(StatusOf(stays.sent, 7), IBV_WC_RETRY_EXC_ERR);
    EXPECT_EQ(StatusOf(stays.received, 6), IBV_WC_WR_FLUSH_ERR);
    EXPECT_EQ(stays.queue_pair->state, IBV_QPS_ERR);
  }
}

// As on a device: a program may end one side while requests of the other side are under way
// (ibv_srq_pingpong).
TEST(ByNumber, RequestFailsAfterItsRetriesOnly) {
  End a, b;
  a.timeout = 14;
  Connect(a, b);
  ExpectExchange(a, b, "hello");
  ASSERT_EQ(a.Send(3, "no receive"), 0);
  const auto begin = Clock::now();
  b.Destroy();
  EXPECT_FALSE(Next(a.sent, kMoment));
  ASSERT_EQ(a.Send(4, "nor now"), 0);
  EXPECT_EQ(StatusOf(a.sent, 3), IBV_WC_RETRY_EXC_ERR);
  EXPECT_GE(Clock::now() - begin, std::chrono::milliseconds(500));
  EXPECT_EQ(StatusOf(a.sent, 4), IBV_WC_WR_FLUSH_ERR);
}

TEST(ByNumber, RequestsUnderWayFailWithThePeer) {
  End a, b;
  Connect(a, b);
  ExpectExchange(a, b, "hello");
  ASSERT_EQ(a.Send(3, "no receive"), 0);
  ASSERT_EQ(a.Send(4, "nor here"), 0);
  EXPECT_FALSE(Next(a.sent, kMoment));
  b.Destroy();
  EXPECT_EQ(StatusOf(a.sent, 3), IBV_WC_RETRY_EXC_ERR);
  EXPECT_EQ(StatusOf(a.sent, 4), IBV_WC_WR_FLUSH_ERR);
}

// As on a device, the queue pair is in the error state when the program sees the failure.
TEST(ByNumber, AFailedRequestMovesToErrAndFlushes) {
  End a, b;
  Connect(a, b);
  ExpectExchange(a, b, "hello");
  ASSERT_EQ(a.Receive(3), 0);
  ibv_send_wr request{};
  request.wr_id = 4;
  request.opcode = IBV_WR_RDMA_WRITE;
  ibv_sge sge{reinterpret_cast<std::uintptr_t>(a.bytes.data()), 8, a.region->lkey};
  request.sg_list = &sge;
  request.num_sge = 1;
  request.wr.rdma = {reinterpret_cast<std::uintptr_t>(b.bytes.data()), 0x12345};
  ibv_send_wr* bad = nullptr;
  ASSERT_EQ(ibv_post_send(a.queue_pair, &request, &bad), 0);
  ASSERT_EQ(a.Send(5, "behind it"), 0);
  EXPECT_EQ(StatusOf(a.sent, 4), IBV_WC_REM_ACCESS_ERR);
  ibv_qp_attr now{};
  ibv_qp_init_attr init{};
  ASSERT_EQ(ibv_query_qp(a.queue_pair, &now, IBV_QP_STATE, &init), 0);
  EXPECT_EQ(now.qp_state, IBV_QPS_ERR);
  EXPECT_EQ(StatusOf(a.sent, 5), IBV_WC_WR_FLUSH_ERR);
  EXPECT_EQ(StatusOf(a.received, 3), IBV_WC_WR_FLUSH_ERR);
}

TEST(ByNumber, ErrorStateFlushes) {
  End a, b;
  Connect(a, b);
  ExpectExchange(a, b, "hello");
  ASSERT_EQ(a.Receive(3), 0);
  ASSERT_EQ(a.Send(4, "no receive"), 0);
  ASSERT_EQ(a.To(IBV_QPS_ERR), 0);
  EXPECT_EQ(StatusOf(a.received, 3), IBV_WC_WR_FLUSH_ERR);
  EXPECT_EQ(StatusOf(a.sent, 4), IBV_WC_WR_FLUSH_ERR);
}

TEST(ByNumber, QueuePairsAreUsedAgainAfterReset) {
  End a, b, c;
  for (int i = 0; i < 3; ++i) {
    Connect(a, b);
    ExpectExchange(a, b, "again");
    for (End* end : {&a, &b}) {
      ASSERT_EQ(end->To(IBV_QPS_RESET), 0);
      ASSERT_EQ(end->ToInit(), 0);
    }
    // The role of this end (connecting or listening) depends on its peer.
    Connect(a, c);
    ExpectExchange(c, a, "another");
    for (End* end : {&a, &c}) {
      ASSERT_EQ(end->To(IBV_QPS_RESET), 0);
      ASSERT_EQ(end->ToInit(), 0);
    }
  }
}

TEST(ByNumber, ResetNeedsNothingOfThePeer) {
  for (int i = 0; i < 2; ++i) {
    End before, a, behind, c;
    End& b = i == 0 ? before : behind;
    Connect(a, b);
    ExpectExchange(a, b, "first");
    ASSERT_EQ(b.Receive(3), 0);
    ASSERT_EQ(a.To(IBV_QPS_RESET), 0);
    ASSERT_EQ(a.ToInit(), 0);
    Connect(a, c);
    ExpectExchange(a, c, "second");
    EXPECT_FALSE(Next(b.received, kMoment));
    ASSERT_EQ(b.Send(4, "anybody?"), 0);
    EXPECT_EQ(StatusOf(b.sent, 4), IBV_WC_RETRY_EXC_ERR);
  }
}

// by_number_test.sh restarts the broker when it sees the file "please" and makes "done".
TEST(ByNumber, WaitForThePeerOutlivesTheBroker) {
  const char* folder = std::getenv("NDBROKER_TEST_RESTART");
  if (folder == nullptr) GTEST_SKIP() << "nobody restarts the broker";
  const std::filesystem::path please = std::filesystem::path(folder) / "please",
                              done = std::filesystem::path(folder) / "done";
  End a, b, c, d;
  ASSERT_EQ(a.Name(b.number()), 0);
  ASSERT_EQ(d.Name(c.number()), 0);
  ASSERT_EQ(a.Receive(1), 0);
  ASSERT_EQ(d.Receive(1), 0);
  std::ofstream(please).close();
  const auto until = Clock::now() + kPatience;
  while (!std::filesystem::exists(done) && Clock::now() < until) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  ASSERT_EQ(b.Name(a.number()), 0);
  ASSERT_EQ(c.Name(d.number()), 0);
  ASSERT_EQ(b.Send(2, "still here"), 0);
  ASSERT_EQ(c.Send(2, "still here"), 0);
  EXPECT_EQ(StatusOf(a.received, 1), IBV_WC_SUCCESS);
  EXPECT_EQ(StatusOf(d.received, 1), IBV_WC_SUCCESS);
}

TEST(ByNumber, PeerByLidAlone) {
  ibv_port_attr port{};
  ASSERT_EQ(ibv_query_port(fabric().context, 1, &port), 0);
  End a, b;
  for (End* end : {&a, &b}) {
    ibv_qp_attr attributes = End::Peer(end == &a ? b.number() : a.number());
    attributes.ah_attr.is_global = 0;
    attributes.ah_attr.dlid = port.lid;
    ASSERT_EQ(ibv_modify_qp(end->queue_pair, &attributes, End::kToRtr), 0);
    ASSERT_EQ(end->ToRts(), 0);
  }
  ExpectExchange(a, b, "by LID");
}

TEST(ByNumber, WrongArguments) {
  End a;
  ibv_qp_attr attributes = End::Peer(0x70000);
  EXPECT_EQ(ibv_modify_qp(a.queue_pair, &attributes, End::kToRtr), EINVAL) << "a number without a port";
  attributes = End::Peer(a.number() ^ 1);
  EXPECT_EQ(ibv_modify_qp(a.queue_pair, &attributes, End::kToRtr & ~IBV_QP_DEST_QPN), EINVAL);
  EXPECT_EQ(ibv_modify_qp(a.queue_pair, &attributes, End::kToRtr & ~IBV_QP_AV), EINVAL);
  attributes.ah_attr.grh.sgid_index = 99;
  EXPECT_EQ(ibv_modify_qp(a.queue_pair, &attributes, End::kToRtr), EINVAL);
  attributes.ah_attr.grh.sgid_index = 0;
  attributes.ah_attr.grh.dgid = {};
  EXPECT_EQ(ibv_modify_qp(a.queue_pair, &attributes, End::kToRtr), EINVAL);
  EXPECT_EQ(a.queue_pair->state, IBV_QPS_INIT);
}

}  // namespace
}  // namespace nd::verbs_programs
