// SPDX-License-Identifier: Apache-2.0
#include "verbs-lib/send_batch.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <string>

namespace nd::verbs_lib {
namespace {

std::string InlineOf(const ibv_send_wr& request) {
  return {reinterpret_cast<const char*>(request.sg_list[0].addr), request.sg_list[0].length};
}

TEST(SendBatch, TheChainHasTheRequestsInOrderWithTheirPieces) {
  SendBatch batch({.sges = 2, .inline_bytes = 16});
  for (int round = 0; round < 2; ++round) {
    batch.Clear();
    const ibv_sge pieces[2] = {{.addr = 1, .length = 2, .lkey = 3}, {.addr = 4, .length = 5, .lkey = 6}};
    char text[] = "abcdef";
    const ibv_data_buf halves[2] = {{text, 2}, {text + 4, 2}};
    batch.Begin(IBV_WR_SEND, 10, IBV_SEND_SIGNALED);
    batch.SetSges(pieces);
    // Enough of them for the lists to grow.
    for (std::uint64_t id = 11; id < 40; ++id) {
      batch.Begin(IBV_WR_RDMA_WRITE, id, IBV_SEND_INLINE).wr.rdma.rkey = 77;
      batch.SetInline(halves);
    }
    batch.Begin(IBV_WR_SEND, 40, 0);
    text[0] = 'x';  // Inline data were read.

    ASSERT_EQ(batch.error(), 0);
    const ibv_send_wr* request = batch.Chain();
    ASSERT_NE(request, nullptr);
    EXPECT_EQ(request->wr_id, 10u);
    EXPECT_EQ(request->send_flags, unsigned{IBV_SEND_SIGNALED});
    ASSERT_EQ(request->num_sge, 2);
    EXPECT_EQ(request->sg_list[1].lkey, 6u);
    for (std::uint64_t id = 11; id < 40; ++id) {
      request = request->next;
      ASSERT_NE(request, nullptr);
      EXPECT_EQ(request->wr_id, id);
      EXPECT_EQ(request->wr.rdma.rkey, 77u);
      EXPECT_EQ(InlineOf(*request), "abef");
    }
    request = request->next;
    ASSERT_NE(request, nullptr);
    EXPECT_EQ(request->num_sge, 0);
    EXPECT_EQ(request->next, nullptr);
  }
}

TEST(SendBatch, ARequestBeyondTheLimitsFailsTheBatch) {
  SendBatch batch({.sges = 1, .inline_bytes = 4});
  const ibv_sge pieces[2] = {};
  char text[8] = {};
  const ibv_data_buf long_data[1] = {{text, 5}};
  const ibv_data_buf endless[2] = {{text, 4}, {text, ~std::size_t{0}}};
  batch.Begin(IBV_WR_SEND, 1, 0);
  batch.SetSges(pieces);
  EXPECT_EQ(batch.error(), EINVAL);
  batch.Clear();
  batch.Begin(IBV_WR_SEND, 1, 0);
  batch.SetInline(long_data);
  EXPECT_EQ(batch.error(), EINVAL);
  batch.Clear();
  batch.Begin(IBV_WR_SEND, 1, 0);
  batch.SetInline(endless);
  EXPECT_EQ(batch.error(), EINVAL);
}

TEST(SendBatch, PiecesWithoutARequestFailTheBatch) {
  SendBatch batch({.sges = 1, .inline_bytes = 4});
  batch.SetSges({});
  EXPECT_EQ(batch.error(), EINVAL);
  EXPECT_EQ(batch.Chain(), nullptr);
  batch.Clear();
  batch.SetAddress(nullptr, 1, 1);
  EXPECT_EQ(batch.error(), EINVAL);
  batch.Clear();
  EXPECT_EQ(batch.error(), 0);
}

}  // namespace
}  // namespace nd::verbs_lib
