// SPDX-License-Identifier: Apache-2.0
#include "provider/verbs/attributes.h"

#include <gtest/gtest.h>

#include <cstring>

namespace nd::provider::verbs {
namespace {

QpTransitions Example() {
  QpTransitions t;
  t[0].attr.qp_state = IBV_QPS_INIT;
  t[0].attr.pkey_index = 3;
  t[0].attr.port_num = 2;
  t[0].mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
  ibv_qp_attr& rtr = t[1].attr;
  rtr.qp_state = IBV_QPS_RTR;
  rtr.path_mtu = IBV_MTU_4096;
  rtr.dest_qp_num = 0xABCDEF;
  rtr.rq_psn = 0x123456;
  rtr.max_dest_rd_atomic = 16;
  rtr.min_rnr_timer = 28;
  rtr.ah_attr.is_global = 1;
  rtr.ah_attr.dlid = 0xC001;
  rtr.ah_attr.sl = 5;
  rtr.ah_attr.src_path_bits = 1;
  rtr.ah_attr.static_rate = 7;
  rtr.ah_attr.port_num = 2;
  rtr.ah_attr.grh.flow_label = 0xFEDCB;
  rtr.ah_attr.grh.sgid_index = 9;
  rtr.ah_attr.grh.hop_limit = 64;
  rtr.ah_attr.grh.traffic_class = 0x6A;
  for (int i = 0; i < 16; ++i) rtr.ah_attr.grh.dgid.raw[i] = static_cast<std::uint8_t>(i + 1);
  t[1].mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
              IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
  ibv_qp_attr& rts = t[2].attr;
  rts.qp_state = IBV_QPS_RTS;
  rts.timeout = 18;
  rts.retry_cnt = 7;
  rts.rnr_retry = 6;
  rts.sq_psn = 0x654321;
  rts.max_rd_atomic = 15;
  t[2].mask = IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
              IBV_QP_MAX_QP_RD_ATOMIC;
  return t;
}

TEST(Attributes, EveryFieldSurvives) {
  const QpTransitions sent = Example();
  const auto got = DecodeTransitions(EncodeTransitions(sent));
  ASSERT_TRUE(got.ok()) << got.status().ToString();
  // The bytes are equal only when no field was lost or exchanged.
  EXPECT_EQ(EncodeTransitions(*got), EncodeTransitions(sent));
  EXPECT_EQ((*got)[0].attr.pkey_index, 3);
  EXPECT_EQ((*got)[0].attr.port_num, 2);
  EXPECT_EQ((*got)[1].attr.path_mtu, IBV_MTU_4096);
  EXPECT_EQ((*got)[1].attr.dest_qp_num, 0xABCDEFu);
  EXPECT_EQ((*got)[1].attr.rq_psn, 0x123456u);
  EXPECT_EQ((*got)[1].attr.max_dest_rd_atomic, 16);
  EXPECT_EQ((*got)[1].attr.min_rnr_timer, 28);
  EXPECT_EQ((*got)[1].attr.ah_attr.dlid, 0xC001);
  EXPECT_EQ((*got)[1].attr.ah_attr.sl, 5);
  EXPECT_EQ((*got)[1].attr.ah_attr.src_path_bits, 1);
  EXPECT_EQ((*got)[1].attr.ah_attr.static_rate, 7);
  EXPECT_EQ((*got)[1].attr.ah_attr.grh.flow_label, 0xFEDCBu);
  EXPECT_EQ((*got)[1].attr.ah_attr.grh.sgid_index, 9);
  EXPECT_EQ((*got)[1].attr.ah_attr.grh.hop_limit, 64);
  EXPECT_EQ((*got)[1].attr.ah_attr.grh.traffic_class, 0x6A);
  EXPECT_EQ(0, std::memcmp((*got)[1].attr.ah_attr.grh.dgid.raw, sent[1].attr.ah_attr.grh.dgid.raw, 16));
  EXPECT_EQ((*got)[2].attr.timeout, 18);
  EXPECT_EQ((*got)[2].attr.retry_cnt, 7);
  EXPECT_EQ((*got)[2].attr.rnr_retry, 6);
  EXPECT_EQ((*got)[2].attr.sq_psn, 0x654321u);
  EXPECT_EQ((*got)[2].attr.max_rd_atomic, 15);
  for (int i = 0; i < 3; ++i) EXPECT_EQ((*got)[i].mask, sent[i].mask);
}

TEST(Attributes, RefusesEveryOtherLength) {
  std::vector<std::uint8_t> bytes = EncodeTransitions(Example());
  for (std::size_t n = 0; n < bytes.size(); ++n) {
    EXPECT_FALSE(DecodeTransitions(std::span(bytes.data(), n)).ok()) << n;
  }
  bytes.push_back(0);
  EXPECT_FALSE(DecodeTransitions(bytes).ok());
}

TEST(Attributes, RefusesAnotherVersion) {
  for (std::size_t at = 0; at < 8; ++at) {
    std::vector<std::uint8_t> bytes = EncodeTransitions(Example());
    bytes[at] ^= 0x40;
    EXPECT_FALSE(DecodeTransitions(bytes).ok()) << at;
  }
}

TEST(Attributes, RefusesStatesOutOfOrder) {
  QpTransitions t = Example();
  std::swap(t[1], t[2]);
  EXPECT_FALSE(DecodeTransitions(EncodeTransitions(t)).ok());
}

TEST(Attributes, RefusesMasksThatTheseTransitionsDoNotHave) {
  QpTransitions t = Example();
  t[1].mask |= IBV_QP_CAP;
  EXPECT_FALSE(DecodeTransitions(EncodeTransitions(t)).ok());
}

}  // namespace
}  // namespace nd::provider::verbs
