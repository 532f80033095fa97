// SPDX-License-Identifier: Apache-2.0
// A queue pair that is connected with itself, as a program of libibverbs sees it.
#include <arpa/inet.h>

#include <array>
#include <cerrno>
#include <cstdint>

#include "tests/verbs-programs/number_end.h"

namespace nd::verbs_programs {
namespace {

constexpr auto kQuiet = std::chrono::milliseconds(200);  // In which nothing must arrive.
constexpr std::uint64_t kOneSided = 7;

// An end with words that its own requests reach.
struct Itself : End {
  alignas(8) std::array<std::uint64_t, 16> words{};
  ibv_mr* reachable = ibv_reg_mr(fabric().domain, words.data(), sizeof words,
                                 IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
                                     IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND);
  Itself() { EXPECT_EQ(Name(number()), 0); }
  ~Itself() {
    Destroy();
    EXPECT_EQ(ibv_dereg_mr(reachable), 0);
  }
  std::uint64_t AddressOf(std::size_t word) const { return reinterpret_cast<std::uintptr_t>(&words[word]); }
  // From or to `local`, to or from `remote`: indices of words.
  int OneSided(ibv_wr_opcode opcode, std::size_t local, std::size_t remote, std::uint64_t add = 0,
               std::uint64_t swap = 0) {
    ibv_sge sge{AddressOf(local), 8, reachable->lkey};
    ibv_send_wr request{};
    request.wr_id = kOneSided;
    request.sg_list = &sge;
    request.num_sge = 1;
    request.opcode = opcode;
    request.imm_data = htonl(0x1234);
    if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD || opcode == IBV_WR_ATOMIC_CMP_AND_SWP) {
      request.wr.atomic = {AddressOf(remote), add, swap, key};
    } else {
      request.wr.rdma = {AddressOf(remote), key};
    }
    ibv_send_wr* bad = nullptr;
    return ibv_post_send(queue_pair, &request, &bad);
  }
  std::uint32_t key = reachable->rkey;  // That requests name.
};

TEST(ToItself, SendArrivesAtOwnReceive) {
  Itself a;
  for (int i = 0; i < 20; ++i) ExpectExchange(a, a, i % 2 == 0 ? "to myself" : "and again");
}

TEST(ToItself, CompletionsNameTheQueuePairAndKeepTheirOrder) {
  Itself a;
  for (std::uint64_t i = 0; i < 4; ++i) ASSERT_EQ(a.Receive(i), 0);
  for (std::uint64_t i = 0; i < 4; ++i) ASSERT_EQ(a.Send(10 + i, "in order"), 0);
  for (std::uint64_t i = 0; i < 4; ++i) {
    const auto sent = Next(a.sent), received = Next(a.received);
    ASSERT_TRUE(sent && received);
    EXPECT_EQ(sent->wr_id, 10 + i);
    EXPECT_EQ(received->wr_id, i);
    EXPECT_EQ(sent->qp_num, a.number());
    EXPECT_EQ(received->qp_num, a.number());
    EXPECT_EQ(received->byte_len, 64u);
  }
}

TEST(ToItself, SendWaitsForItsReceive) {
  Itself a;
  ASSERT_EQ(a.Send(1, "patient"), 0);
  EXPECT_FALSE(Next(a.sent, kQuiet));
  ASSERT_EQ(a.Receive(2), 0);
  EXPECT_EQ(StatusOf(a.received, 2), IBV_WC_SUCCESS);
  EXPECT_EQ(StatusOf(a.sent, 1), IBV_WC_SUCCESS);
  EXPECT_STREQ(a.text(), "patient");
}

TEST(ToItself, ReceivesPostedBeforeTheConnectionStay) {
  End a;
  ASSERT_EQ(a.Receive(1), 0);
  ASSERT_EQ(a.Name(a.number()), 0);
  ASSERT_EQ(a.Send(2, "early"), 0);
  EXPECT_EQ(StatusOf(a.received, 1), IBV_WC_SUCCESS);
  EXPECT_STREQ(a.text(), "early");
}

TEST(ToItself, RequestsReachOwnMemory) {
  Itself a;
  a.words = {1, 2, 3, 4};
  ASSERT_EQ(a.OneSided(IBV_WR_RDMA_WRITE, 0, 8), 0);
  EXPECT_EQ(StatusOf(a.sent, kOneSided), IBV_WC_SUCCESS);
  EXPECT_EQ(a.words[8], 1u);
  ASSERT_EQ(a.OneSided(IBV_WR_RDMA_READ, 9, 1), 0);
  EXPECT_EQ(StatusOf(a.sent, kOneSided), IBV_WC_SUCCESS);
  EXPECT_EQ(a.words[9], 2u);
  ASSERT_EQ(a.OneSided(IBV_WR_ATOMIC_FETCH_AND_ADD, 10, 2, 5), 0);
  EXPECT_EQ(StatusOf(a.sent, kOneSided), IBV_WC_SUCCESS);
  EXPECT_EQ(a.words[10], 3u);
  EXPECT_EQ(a.words[2], 8u);
  ASSERT_EQ(a.OneSided(IBV_WR_ATOMIC_CMP_AND_SWP, 11, 3, 4, 44), 0);
  EXPECT_EQ(StatusOf(a.sent, kOneSided), IBV_WC_SUCCESS);
  EXPECT_EQ(a.words[11], 4u);
  EXPECT_EQ(a.words[3], 44u);
  ASSERT_EQ(a.Receive(1), 0);
  ASSERT_EQ(a.OneSided(IBV_WR_RDMA_WRITE_WITH_IMM, 0, 12), 0);
  const auto received = Next(a.received);
  ASSERT_TRUE(received);
  EXPECT_EQ(received->opcode, IBV_WC_RECV_RDMA_WITH_IMM);
  EXPECT_EQ(received->imm_data, htonl(0x1234));
  EXPECT_EQ(a.words[12], 1u);
}

TEST(ToItself, WrongKeyFailsTheRequestAndEndsTheConnection) {
  Itself a;
  a.key ^= 0x100;
  ASSERT_EQ(a.Receive(1), 0);
  ASSERT_EQ(a.OneSided(IBV_WR_RDMA_WRITE, 0, 8), 0);
  EXPECT_EQ(StatusOf(a.sent, kOneSided), IBV_WC_REM_ACCESS_ERR);
  EXPECT_EQ(StatusOf(a.received, 1), IBV_WC_WR_FLUSH_ERR);
  EXPECT_EQ(a.words[8], 0u);
}

TEST(ToItself, RightsOfTheQueuePairApply) {
  Itself a;
  ibv_qp_attr none{};
  ASSERT_EQ(ibv_modify_qp(a.queue_pair, &none, IBV_QP_ACCESS_FLAGS), 0);
  ASSERT_EQ(a.OneSided(IBV_WR_RDMA_READ, 9, 1), 0);
  EXPECT_EQ(StatusOf(a.sent, kOneSided), IBV_WC_REM_ACCESS_ERR);
}

TEST(ToItself, ErrorStateFlushesBothQueues) {
  Itself a;
  ExpectExchange(a, a, "hello");
  ASSERT_EQ(a.Send(3, "no receive"), 0);
  ASSERT_EQ(a.Send(4, "no receive"), 0);
  EXPECT_FALSE(Next(a.sent, kQuiet));
  ASSERT_EQ(a.To(IBV_QPS_ERR), 0);
  EXPECT_EQ(StatusOf(a.sent, 3), IBV_WC_WR_FLUSH_ERR);
  EXPECT_EQ(StatusOf(a.sent, 4), IBV_WC_WR_FLUSH_ERR);
  ASSERT_EQ(a.Receive(5), 0);
  EXPECT_EQ(StatusOf(a.received, 5), IBV_WC_WR_FLUSH_ERR);
}

TEST(ToItself, AfterResetThePeerMayBeAnother) {
  Itself a;
  End b;
  for (int i = 0; i < 3; ++i) {
    ExpectExchange(a, a, "myself");
    ASSERT_EQ(a.Send(1, "lost"), 0);
    ASSERT_EQ(a.To(IBV_QPS_RESET), 0);
    ASSERT_EQ(a.ToInit(), 0);
    EXPECT_FALSE(Next(a.sent, std::chrono::milliseconds(20)));
    Connect(a, b);
    ExpectExchange(a, b, "another");
    ExpectExchange(b, a, "and back");
    for (End* end : {static_cast<End*>(&a), &b}) {
      ASSERT_EQ(end->To(IBV_QPS_RESET), 0);
      ASSERT_EQ(end->ToInit(), 0);
    }
    ASSERT_EQ(a.Name(a.number()), 0);
  }
}

TEST(ToItself, DestroyWithRequestsUnderWayTakesNoWait) {
  const auto begin = Clock::now();
  for (int i = 0; i < 10; ++i) {
    Itself a;
    ASSERT_EQ(a.Receive(1), 0);
    for (std::uint64_t id = 2; id < 8; ++id) ASSERT_EQ(a.Send(id, "under way"), 0);
    if (i % 2 == 0) {
      EXPECT_EQ(StatusOf(a.received, 1), IBV_WC_SUCCESS);
    }
  }
  EXPECT_LT(Clock::now() - begin, std::chrono::seconds(5));
}

TEST(ToItself, WindowOfType1IsReached) {
  Itself a;
  ibv_mw* window = ibv_alloc_mw(fabric().domain, IBV_MW_TYPE_1);
  ASSERT_NE(window, nullptr);
  ibv_mw_bind bind{};
  bind.wr_id = 1;
  bind.bind_info = {a.reachable, a.AddressOf(8), 8, IBV_ACCESS_REMOTE_WRITE};
  ASSERT_EQ(ibv_bind_mw(a.queue_pair, window, &bind), 0);
  EXPECT_EQ(StatusOf(a.sent, 1), IBV_WC_SUCCESS);
  a.key = window->rkey;
  a.words[0] = 5;
  ASSERT_EQ(a.OneSided(IBV_WR_RDMA_WRITE, 0, 8), 0);
  EXPECT_EQ(StatusOf(a.sent, kOneSided), IBV_WC_SUCCESS);
  EXPECT_EQ(a.words[8], 5u);
  EXPECT_EQ(ibv_dealloc_mw(window), 0);
}

TEST(ToItself, WindowOfType2IsRefused) {
  Itself a;
  ibv_mw* window = ibv_alloc_mw(fabric().domain, IBV_MW_TYPE_2);
  ASSERT_NE(window, nullptr);
  ibv_send_wr request{};
  request.opcode = IBV_WR_BIND_MW;
  request.bind_mw.mw = window;
  request.bind_mw.rkey = ibv_inc_rkey(window->rkey);
  request.bind_mw.bind_info = {a.reachable, a.AddressOf(8), 8, IBV_ACCESS_REMOTE_WRITE};
  ibv_send_wr* bad = nullptr;
  EXPECT_EQ(ibv_post_send(a.queue_pair, &request, &bad), EOPNOTSUPP);
  EXPECT_EQ(bad, &request);
  EXPECT_EQ(ibv_dealloc_mw(window), 0);
  ExpectExchange(a, a, "still there");
}

// The same port with another number is that of a former queue pair.
TEST(ToItself, NumberOfAFormerQueuePairIsNotTheOwnOne) {
  End a;
  ASSERT_EQ(a.Name(a.number() ^ 0x010000), 0);
  ASSERT_EQ(a.Send(1, "who?"), 0);
  EXPECT_EQ(StatusOf(a.sent, 1), IBV_WC_RETRY_EXC_ERR);
}

TEST(ToItself, UnreliableConnectionToo) {
  End a(nullptr, IBV_QPT_UC);
  ibv_qp_attr attributes = End::Peer(a.number());
  ASSERT_EQ(ibv_modify_qp(a.queue_pair, &attributes,
                          End::kToRtr & ~(IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER)),
            0);
  attributes.qp_state = IBV_QPS_RTS;
  ASSERT_EQ(ibv_modify_qp(a.queue_pair, &attributes, IBV_QP_STATE | IBV_QP_SQ_PSN), 0);
  ExpectExchange(a, a, "unreliable");
}

}  // namespace
}  // namespace nd::verbs_programs
