// SPDX-License-Identifier: Apache-2.0
// Each ordering rule of RDMAP (RFC 5040, 5.5) and of Network Direct, on each transport, through memory that
// the peer maps and through memory that it cannot map.
#include <algorithm>
#include <cstdio>

#include "tests/integrity/world.h"

namespace nd::integrity {
namespace {

class Order : public ::testing::TestWithParam<Transport> {
 protected:
  void Play(const std::string& rule, std::uint64_t rounds, std::uint64_t connections = 1) {
    World& world = World::Shared(GetParam());
    for (const char* how : {"heap=0 waiting=poll", "heap=1 waiting=wait"}) {
      SCOPED_TRACE(how);
      const World::Reports reports =
          world.Both("program=order rule=" + rule + " rounds=" + std::to_string(rounds) +
                     " connections=" + std::to_string(connections) + " " + how);
      if (!reports.ok()) return;
      std::printf("%s %s, %s: %s\n", NameOf(GetParam()).c_str(), rule.c_str(), how, reports.active.c_str());
      std::fflush(stdout);
    }
    world.ExpectNothingLeft();
  }
  void Play(const std::string& rule) { Play(rule, GetSettings().rounds / 2); }
  // A rule whose proof ends the connection.
  void PlayToTheEnd(const std::string& rule) {
    Play(rule, 1, std::clamp<std::uint64_t>(GetSettings().rounds / 200, 1, 2000));
  }
};

TEST_P(Order, WriteIsVisibleBeforeLaterSend) {
  Play("write_before_send");
}
TEST_P(Order, LastOfSeveralWritesStays) {
  Play("last_write_wins");
}
TEST_P(Order, SendsArriveInOrder) {
  Play("sends_in_order");
}
TEST_P(Order, CompletionsComeInOrderOfPosting) {
  Play("completions_in_order");
}
TEST_P(Order, ReadAfterWriteReturnsWhatWasWritten) {
  Play("read_after_write");
}
TEST_P(Order, ReadAfterMessageSeesStoresBeforeIt) {
  Play("read_sees_stores");
}
TEST_P(Order, FencedWriteCarriesWhatWasRead) {
  Play("fenced_write_carries_read");
}
TEST_P(Order, FencedSendCarriesWhatWasRead) {
  Play("fenced_send_carries_read");
}
TEST_P(Order, FencedWriteSparesTheReadBeforeIt) {
  Play("fenced_write_spares_read");
}
TEST_P(Order, UnfencedWriteAfterReadIsOldOrNew) {
  Play("free_write_after_read");
}
TEST_P(Order, BindIsInForceBeforeLaterSend) {
  Play("bind_before_send");
}
TEST_P(Order, WindowIsInvalidWhenSendWithInvalidateArrives) {
  Play("send_with_invalidate");
}
TEST_P(Order, InvalidationIsInForceBeforeLaterSend) {
  PlayToTheEnd("invalidate_before_send");
}
TEST_P(Order, WriterThatInvalidatedHasNoAccess) {
  PlayToTheEnd("invalidated_by_peer");
}

INSTANTIATE_TEST_SUITE_P(Integrity, Order, ::testing::Values(Transport::kLocal, Transport::kIwarp),
                         [](const auto& test) { return NameOf(test.param); });

}  // namespace
}  // namespace nd::integrity
