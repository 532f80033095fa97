// SPDX-License-Identifier: Apache-2.0
// The end of a session with very many connections, at a real broker; see service_fixture.h.
//
// The connections are forged with the key in the broker's directory, because they need no peer then: each is
// a Reattach with a valid proof.
#include <gtest/gtest.h>
#include <time.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>

#include "daemon/service/raw_client.h"
#include "daemon/service/service_fixture.h"
#include "daemon/state/journal_file.h"
#include "daemon/state/reattach_key.h"

namespace nd::service {
namespace {

class ReclaimProcessTest : public ServiceTest {
 protected:
  // Rounds of the broker's loop, the seconds that they took, and the processor time of the broker.
  struct Rounds {
    double all = 0, busy = 0, processor = 0, over_10ms = 0;
  };
  Rounds LoopRounds() {
    std::this_thread::sleep_for(milliseconds(200));  // A page is up to 100 ms old.
    const std::string page = Get("/metrics");
    const auto value = [&](const std::string& name) {
      const std::size_t at = page.find("\nndbroker_loop_" + name + " ");
      EXPECT_NE(at, std::string::npos) << name;
      return at == std::string::npos ? 0 : std::atof(page.c_str() + page.find(' ', at));
    };
    clockid_t clock{};
    timespec time{};
    EXPECT_EQ(::clock_getcpuclockid(daemon_, &clock), 0);
    EXPECT_EQ(::clock_gettime(clock, &time), 0);
    return {value("round_duration_seconds_count"), value("round_duration_seconds_sum"),
            static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) / 1e9,
            value("round_duration_seconds_count") - value("round_duration_seconds_bucket{le=\"0.01\"}")};
  }
  std::string LongestRound() {
    const pb::DiagnoseReply reply = Call(&pb::Admin::Stub::Diagnose, pb::DiagnoseRequest());
    for (const pb::Diagnosis& item : reply.items()) {
      if (item.name() == "loop stall") return item.finding();
    }
    return {};
  }
  // Makes `count` connections of this client that no peer has.
  void Forge(LaneClient* client, std::uint32_t count) {
    const state::ReattachKey key(directory_, state::BootId());
    pb::ClientMessage list;
    list.mutable_list_adapters();
    core::ConnectionFacts facts;
    facts.adapter = client->Ask(list).adapters(0).name();
    facts.local = Address::Parse("127.0.0.1:7000").value();
    facts.passive = true;
    facts.uid = ::getuid();
    for (std::uint32_t i = 0; i < count; ++i) {
      pb::ClientMessage message;
      pb::Reattach& op = *message.mutable_reattach();
      op.set_adapter(client->adapter);
      op.set_queue_pair(client->QueuePair());
      op.set_passive(true);
      SetLoopback(7000, op.mutable_local());
      SetLoopback(1 + i % 60000, op.mutable_remote());
      facts.remote = Address::Parse("127.0.0.1:" + std::to_string(1 + i % 60000)).value();
      const provider::Bytes proof = key.Prove(facts);
      op.set_proof(proof.data(), proof.size());
      const pb::Completion done = client->Ask(message);
      ASSERT_EQ(done.status().code(), 0u) << done.status().message();
    }
  }
};

TEST_F(ReclaimProcessTest, TheLoopReclaimsManyConnectionsInRoundsUnderAMillisecond) {
  const std::uint32_t count = std::getenv("NDBROKER_FULL") != nullptr ? 60000 : 10000;
  ASSERT_EQ(StopDaemon(), 0);
  StartDaemon("[broker]\nreclaim-grace = \"10min\"\n");
  auto client = std::make_unique<LaneClient>(directory_);
  Forge(client.get(), count);
  ASSERT_EQ(GetStatus().connections(), count);
  const std::string before_longest = LongestRound();
  const Rounds before = LoopRounds();
  client->lane.Close();
  // A session is listed until its last object is reclaimed.
  ASSERT_TRUE(Until([&] { return Call(&pb::Admin::Stub::ListSessions, All()).items_size() == 0; }));
  const Rounds after = LoopRounds();
  const double rounds = after.all - before.all, busy = after.busy - before.busy;
  const double processor = after.processor - before.processor;
  std::printf(
      "%u connections: %.0f rounds of %.3f ms (%.3f ms of processor time), %.0f over 10 ms; longest round "
      "before: %s after: %s\n",
      count, rounds, 1000 * busy / rounds, 1000 * processor / rounds, after.over_10ms - before.over_10ms,
      before_longest.c_str(), LongestRound().c_str());
  // A connection is two objects, a round reclaims 64 at most. The other rounds are those of Until().
  EXPECT_GE(rounds, 2 * count / 64);
  // Other processes can make a round longer, but they use no processor time of the broker.
  EXPECT_LT(processor / rounds, 0.001);
}

}  // namespace
}  // namespace nd::service
