// SPDX-License-Identifier: Apache-2.0
// Stamped streams through each kind of operation on each transport. The bytes are divided among three ways to
// use the queues.
#include <algorithm>
#include <cstdio>

#include "tests/integrity/world.h"

namespace nd::integrity {
namespace {

struct Way {
  const char* name;
  const char* words;
};
constexpr Way kWays[] = {
    {"one queue pair, polled", "pairs=1 waiting=poll heap=0 srq=0 sge=16"},
    {"three on a shared receive queue, blocking, own memory", "pairs=3 waiting=wait heap=1 srq=1 sge=16"},
    {"two on one completion queue, notified, one element", "pairs=2 waiting=notify heap=0 srq=0 sge=1"},
    {"two on one completion queue, polled, own memory", "pairs=2 waiting=poll heap=1 srq=0 sge=16"},
};

struct Kind {
  const char* name;
  std::uint32_t most;
};
constexpr Kind kKinds[] = {{"send", 16 << 20},       {"inline", 256},    {"write", 16 << 20},
                           {"write_send", 16 << 20}, {"read", 16 << 20}, {"send_invalidate", 16 << 20}};

class Transfer : public ::testing::TestWithParam<std::tuple<Transport, Kind>> {};

TEST_P(Transfer, EveryByteArrivesOnceAtItsOffset) {
  const auto& [transport, kind] = GetParam();
  World& world = World::Shared(transport);
  const std::uint64_t total = GetSettings().bytes / std::size(kWays);
  std::uint64_t seed = 1;
  for (const Way& way : kWays) {
    SCOPED_TRACE(way.name);
    const World::Reports reports =
        world.Both(std::string("program=transfer kind=") + kind.name + " most=" + std::to_string(kind.most) +
                   " bytes=" + std::to_string(total) + " seed=" + std::to_string(seed++) + " " + way.words);
    if (!reports.ok()) return;
    std::printf("%s %s, %s: %s\n", NameOf(transport).c_str(), kind.name, way.name, reports.passive.c_str());
    std::fflush(stdout);
  }
  world.ExpectNothingLeft();
}

INSTANTIATE_TEST_SUITE_P(Integrity, Transfer,
                         ::testing::Combine(::testing::Values(Transport::kLocal, Transport::kIwarp),
                                            ::testing::ValuesIn(kKinds)),
                         [](const auto& test) {
                           return NameOf(std::get<0>(test.param)) + "_" + std::get<1>(test.param).name;
                         });

}  // namespace
}  // namespace nd::integrity
