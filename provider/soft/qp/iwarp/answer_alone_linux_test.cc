// SPDX-License-Identifier: Apache-2.0
// Counts segments of TCP, which only Linux tells: on an idle connection each system call that sends makes
// one.
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "provider/soft/qp/testing.h"

namespace nd::provider::soft {
namespace {

std::uint32_t SegmentsSent(int socket) {
  tcp_info info{};
  socklen_t size = sizeof info;
  EXPECT_EQ(::getsockopt(socket, IPPROTO_TCP, TCP_INFO, &info, &size), 0);
  return info.tcpi_data_segs_out;
}

TEST(AnswerAloneTest, AMessageOfAnApplicationThatAnswersCarriesTheConfirmation) {
  constexpr std::uint64_t kTurns = 200;
  End a({}, false), b({}, false);
  Memory of_a(a, 4096, false), of_b(b, 4096, false);
  HandOffs both = MakeHandOffs(Link::kIwarp);
  const UniqueFd socket = os::Duplicate(both.passive.fds[0].get());
  ASSERT_TRUE(a.qp->Attach(std::move(both.active)).ok());
  ASSERT_TRUE(b.qp->Attach(std::move(both.passive)).ok());
  const auto write = [](End& end, Memory& from, Memory& to, std::uint64_t number) {
    std::memcpy(from.data, &number, sizeof number);
    const Sge sge = from.At(0, sizeof number);
    ASSERT_TRUE(end.qp->Write(nullptr, {&sge, 1}, to.Address(2048), to.token(), kOpSilentSuccess).ok());
  };
  const auto poll_until = [](End& end, Memory& in, std::uint64_t number) {
    std::uint64_t seen = 0;
    for (const Time deadline = In(kPatience);
         seen != number && Time(std::chrono::steady_clock::now()) < deadline;
         std::memcpy(&seen, in.data + 2048, sizeof seen)) {
      Completion none;
      EXPECT_EQ(end.cq->Poll({&none, 1}), 0u);
    }
    ASSERT_EQ(seen, number);
  };
  const std::uint32_t before = SegmentsSent(socket.get());
  for (std::uint64_t turn = 1; turn <= kTurns; ++turn) {
    write(a, of_a, of_b, turn);
    poll_until(b, of_b, turn);
    write(b, of_b, of_a, turn);
    poll_until(a, of_a, turn);
  }
  EXPECT_LT(SegmentsSent(socket.get()) - before, kTurns * 5 / 4) << "answers went alone";
}

}  // namespace
}  // namespace nd::provider::soft
