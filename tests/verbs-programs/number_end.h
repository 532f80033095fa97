// SPDX-License-Identifier: Apache-2.0
// For tests that are programs of libibverbs: the first device, and ends of connections by number.
#pragma once

#include <gtest/gtest.h>
#include <infiniband/verbs.h>

#include <array>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <thread>
#include <utility>

namespace nd::verbs_programs {

using Clock = std::chrono::steady_clock;

constexpr auto kPatience = std::chrono::seconds(20);

struct Fabric {
  ibv_context* context = nullptr;
  ibv_pd* domain = nullptr;
  ibv_gid gid{};
  Fabric() {
    ibv_device** list = ibv_get_device_list(nullptr);
    if (list == nullptr || list[0] == nullptr) std::exit(2);  // The library has said why.
    context = ibv_open_device(list[0]);
    ibv_free_device_list(list);
    domain = ibv_alloc_pd(context);
    ibv_query_gid(context, 1, 0, &gid);
  }
};

inline Fabric& fabric() {
  static auto* instance = new Fabric;
  return *instance;
}

// A queue pair with its completion queues, and memory of which the first half is sent and the second
// received.
struct End {
  std::array<char, 128> bytes{};
  ibv_cq* sent = ibv_create_cq(fabric().context, 16, nullptr, nullptr, 0);
  ibv_cq* received;
  ibv_mr* region = ibv_reg_mr(fabric().domain, bytes.data(), bytes.size(), IBV_ACCESS_LOCAL_WRITE);
  ibv_qp* queue_pair = nullptr;
  std::uint8_t timeout = 4;  // 4.096 us x 2^timeout

  // `channel`: for events of receives.
  explicit End(ibv_comp_channel* channel = nullptr, ibv_qp_type type = IBV_QPT_RC)
      : received(ibv_create_cq(fabric().context, 16, nullptr, channel, 0)) {
    ibv_qp_init_attr wanted{};
    wanted.send_cq = sent;
    wanted.recv_cq = received;
    wanted.cap = {8, 8, 1, 1, 0};
    wanted.qp_type = type;
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
    attributes.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
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

inline std::optional<ibv_wc> Next(ibv_cq* queue, Clock::duration patience = kPatience) {
  const auto until = Clock::now() + patience;
  ibv_wc completion;
  do {
    if (ibv_poll_cq(queue, 1, &completion) == 1) return completion;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  } while (Clock::now() < until);
  return std::nullopt;
}

// The status of the next completion, which is that of request `id`.
inline ibv_wc_status StatusOf(ibv_cq* queue, std::uint64_t id) {
  const auto completion = Next(queue);
  if (!completion) return IBV_WC_GENERAL_ERR;
  EXPECT_EQ(completion->wr_id, id);
  return completion->status;
}

inline void ExpectExchange(End& from, End& to, const char* text) {
  ASSERT_EQ(to.Receive(1), 0);
  ASSERT_EQ(from.Send(2, text), 0);
  EXPECT_EQ(StatusOf(to.received, 1), IBV_WC_SUCCESS);
  EXPECT_EQ(StatusOf(from.sent, 2), IBV_WC_SUCCESS);
  EXPECT_STREQ(to.text(), text);
}

inline void Connect(End& a, End& b) {
  ASSERT_EQ(a.Name(b.number()), 0);
  ASSERT_EQ(b.Name(a.number()), 0);
}

}  // namespace nd::verbs_programs
