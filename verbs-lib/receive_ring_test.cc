// SPDX-License-Identifier: Apache-2.0
#include "verbs-lib/receive_ring.h"

#include <gtest/gtest.h>

#include <cerrno>

namespace nd::verbs_lib {
namespace {

ibv_recv_wr Request(std::uint64_t id, ibv_sge* pieces, int count) {
  ibv_recv_wr request{};
  request.wr_id = id;
  request.sg_list = pieces;
  request.num_sge = count;
  return request;
}

TEST(ReceiveRing, ReceivesAreTakenOldestFirstWithTheirPieces) {
  ReceiveRing ring(2, 2);
  ibv_sge pieces[2] = {{.addr = 1, .length = 10, .lkey = 5}, {.addr = 2, .length = 20, .lkey = 6}};
  for (std::uint64_t id = 0; id < 10; id += 2) {
    EXPECT_EQ(ring.Post(Request(id, pieces, 2)), 0);
    EXPECT_EQ(ring.Post(Request(id + 1, pieces + 1, 1)), 0);
    EXPECT_EQ(ring.Post(Request(99, pieces, 1)), ENOMEM);
    EXPECT_EQ(ring.id(), id);
    ASSERT_EQ(ring.pieces().size(), 2u);
    EXPECT_EQ(ring.pieces()[1].lkey, 6u);
    ring.Pop();
    EXPECT_EQ(ring.id(), id + 1);
    ASSERT_EQ(ring.pieces().size(), 1u);
    EXPECT_EQ(ring.pieces()[0].addr, 2u);
    ring.Pop();
    EXPECT_TRUE(ring.empty());
  }
}

TEST(ReceiveRing, AReceiveWithTooManyPiecesIsRefused) {
  ReceiveRing ring(2, 1);
  ibv_sge pieces[2] = {};
  EXPECT_EQ(ring.Post(Request(1, pieces, 2)), EINVAL);
  EXPECT_EQ(ring.Post(Request(1, pieces, -1)), EINVAL);
  EXPECT_TRUE(ring.empty());
  EXPECT_EQ(ring.Post(Request(1, pieces, 0)), 0);
  EXPECT_TRUE(ring.pieces().empty());
}

}  // namespace
}  // namespace nd::verbs_lib
