// SPDX-License-Identifier: Apache-2.0
// Queue pairs connected by number, as a program of libibverbs sees them. by_number_test.sh runs it by 'ndctl
// run'.
#include <gtest/gtest.h>
#include <infiniband/verbs.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <set>
#include <thread>
#include <utility>

namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kPatience = std::chrono::seconds(20);
// The time for which a test waits to see that nothing arrives.
constexpr auto kMoment = std::chrono::milliseconds(200);

struct Fabric {
  ibv_context* context = nullptr;
  ibv_pd* domain = nullptr;
  ibv_gid gid{};
  Fabric() {
    ibv_device** list = ibv_get_device_list(nullptr);
    if (list == nullptr || list[0] == nullptr) std::exit(2);  // The library has printed the reason.
    context = ibv_open_device(list[0]);
    ibv_free_device_list(list);
    domain = ibv_alloc_pd(context);
    ibv_query_gid(context, 1, 0, &gid);
  }
};

Fabric& fabric() {
  static auto* instance = new Fabric;
  return *instance;
}

// A queue pair with its completion queues, and memory of which the first half is sent and the second
// received.
struct End {
  std::array<char, 128> bytes{};
  ibv_cq* sent = ibv_create_cq(fabric().context, 16, nullptr, nullptr, 0);
  ibv_cq* received = ibv_create_cq(fabric().context, 16, nullptr, nullptr, 0);
  ibv_mr* region = ibv_reg_mr(fabric().domain, bytes.data(), bytes.size(), IBV_ACCESS_LOCAL_WRITE);
  ibv_qp* queue_pair = nullptr;
  std::uint8_t timeout = 4;  // 4.096 us x 2^timeout

  End() {
    ibv_qp_init_attr wanted{};
    wanted.send_cq = sent;
    wanted.recv_cq = received;
    wanted.cap = {8, 8, 1, 1, 0};
    wanted.qp_type = IBV_QPT_RC;
    wanted.sq_sig_all = 1;
    queue_pair = ibv_create_qp(fabric().domain, &wanted);
    EXPECT_TRUE(queue_pair != nullptr && ToInit() == 0);
  }
  ~End() {
    Destroy();
    ibv_dereg_mr(region);
    EXPECT_EQ(ibv_destroy_cq(sent), 0);
    EXPECT_EQ(ibv_destroy_cq(received), 0);
  }
  void Destroy() {
    if (queue_pair == nullptr) return;
    EXPECT_EQ(ibv_destroy_qp(std::exchange(queue_pair, nullptr)), 0);
  }

  std::uint32_t number() const { return queue_pair->qp_num; }

  int To(ibv_qp_state state) {
    ibv_qp_attr attributes{};
    attributes.qp_state = state;
    return ibv_modify_qp(queue_pair, &attributes, IBV_QP_STATE);
  }
  int ToInit() {
    ibv_qp_attr attributes{};
    attributes.qp_state = IBV_QPS_INIT;
    attributes.port_num = 1;
    return ibv_modify_qp(queue_pair, &attributes,
                         IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
  }
  static ibv_qp_attr Peer(std::uint32_t number) {
    ibv_qp_attr attributes{};
    attributes.qp_state = IBV_QPS_RTR;
    attributes.path_mtu = IBV_MTU_1024;
    attributes.dest_qp_num = number;
    attributes.max_dest_rd_atomic = 1;
    attributes.ah_attr.is_global = 1;
    attributes.ah_attr.grh.dgid = fabric().gid;
    attributes.ah_attr.port_num = 1;
    return attributes;
  }
  static constexpr int kToRtr = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                                IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
  int Name(std::uint32_t number) {
    ibv_qp_attr attributes = Peer(number);
    if (const int error = ibv_modify_qp(queue_pair, &attributes, kToRtr)) return error;
    return ToRts();
  }
  int ToRts() {
    ibv_qp_attr attributes{};
    attributes.qp_state = IBV_QPS_RTS;
    attributes.timeout = timeout;
    attributes.retry_cnt = attributes.rnr_retry = 7;
    return ibv_modify_qp(queue_pair, &attributes,
                         IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
                             IBV_QP_MAX_QP_RD_ATOMIC);
  }

  int Receive(std::uint64_t id) {
    ibv_sge sge{reinterpret_cast<std::uintptr_t>(bytes.data() + 64), 64, region->lkey};
    ibv_recv_wr request{};
    request.wr_id = id;
    request.sg_list = &sge;
    request.num_sge = 1;
    ibv_recv_wr* bad = nullptr;
    return ibv_post_recv(queue_pair, &request, &bad);
  }
  int Send(std::uint64_t id, const char* text) {
    std::strncpy(bytes.data(), text, 64);
    ibv_sge sge{reinterpret_cast<std::uintptr_t>(bytes.data()), 64, region->lkey};
    ibv_send_wr request{};
    request.wr_id = id;
    request.sg_list = &sge;
    request.num_sge = 1;
    request.opcode = IBV_WR_SEND;
    ibv_send_wr* bad = nullptr;
    return ibv_post_send(queue_pair, &request, &bad);
  }
  const char* text() const { return bytes.data() + 64; }
};

std::optional<ibv_wc> Next(ibv_cq* queue, Clock::duration patience = kPatience) {
  const auto until = Clock::now() + patience;
  ibv_wc completion;
  do {
    if (ibv_poll_cq(queue, 1, &completion) == 1) return completion;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  } while (Clock::now() < until);
  return std::nullopt;
}

// The status of the next completion, which is that of request `id`.
ibv_wc_status StatusOf(ibv_cq* queue, std::uint64_t id) {
  const auto completion = Next(queue);
  if (!completion) return IBV_WC_GENERAL_ERR;
  EXPECT_EQ(completion->wr_id, id);
  return completion->status;
}

void ExpectExchange(End& from, End& to, const char* text) {
  ASSERT_EQ(to.Receive(1), 0);
  ASSERT_EQ(from.Send(2, text), 0);
  EXPECT_EQ(StatusOf(to.received, 1), IBV_WC_SUCCESS);
  EXPECT_EQ(StatusOf(from.sent, 2), IBV_WC_SUCCESS);
  EXPECT_STREQ(to.text(), text);
}

void Connect(End& a, End& b) {
  ASSERT_EQ(a.Name(b.number()), 0);
  ASSERT_EQ(b.Name(a.number()), 0);
}

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
  ibv_qp_attr attributes = End::Peer(a.number());
  EXPECT_EQ(ibv_modify_qp(a.queue_pair, &attributes, End::kToRtr), EOPNOTSUPP) << "itself";
  attributes = End::Peer(0x70000);
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
