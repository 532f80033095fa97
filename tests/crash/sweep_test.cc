// SPDX-License-Identifier: Apache-2.0
// The whole life of a connection, in which one process is killed at its k-th system call, for k = 1, 2, 3 ...
// until it survives. Every call is covered, however the code changes.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <set>

#include "tests/crash/settings.h"
#include "tests/crash/stage.h"

namespace nd::crash {
namespace {

constexpr milliseconds kPatience{10'000};

// Plays the life; names the first call that hangs, or "".
class Life {
 public:
  explicit Life(Stage& stage) : stage_(stage) {}

  // Every call must return, whichever process is dead. Returns the name of the first call that hangs.
  std::string Play() {
    Actor &a = stage_.app(0), &p = stage_.app(1);
    const std::uint16_t port = stage_.NewPort();
    const Listener l = p.CreateListener();
    const Qp aq = a.CreateQp(), pq = p.CreateQp();
    const Connector ac = a.CreateConnector(), pc = p.CreateConnector();
    // An application whose broker died before it had its objects cannot continue.
    const bool active = aq && ac, passive = l && pq && pc;
    Outcome connect, accept, complete, notify, bye;
    bool listens = false, accepting = false, connected = false;
    if (passive) {
      (void)l.Bind(stage_.address(1, port));
      listens = l.Listen().ok();
    }
    if (active) {
      (void)ac.Bind(stage_.address(0, 0));
      connect = ac.Connect(aq, stage_.address(1, port));
    }
    if (listens) {
      // A request may not arrive any more; the call must still end.
      const Outcome get = l.GetConnectionRequest(pc);
      Status got;
      Eventually(
          [&] {
            got = get.Wait(milliseconds(1));
            return !got.pending() || !active || !connect.pending();
          },
          kPatience);
      if (got.pending()) {
        (void)l.Cancel();
        if (Hangs(get, "GetConnectionRequest")) return hung_;
      }
      accept = pc.Accept(pq);
      accepting = true;
    }
    if (active) {
      if (Hangs(connect, "Connect")) return hung_;
      complete = ac.CompleteConnect();
      if (Hangs(complete, "CompleteConnect")) return hung_;
      connected = complete.Wait().ok();
      if (!connected && Hangs(ac.Close(), "Close")) return hung_;
    }
    if (accepting && Hangs(accept, "Accept")) return hung_;
    if (connected && accepting && accept.Wait().ok()) {
      failed_ = Traffic(a, aq, p, pq);
      notify = pc.NotifyDisconnect();
      bye = ac.Disconnect();
      if (Hangs(bye, "Disconnect of A")) return hung_;
      // A broker that dies during Disconnect leaves the connection established; Close ends it in any case.
      if (!bye.Wait().ok() && Hangs(ac.Close(), "Close")) return hung_;
      if (Hangs(notify, "NotifyDisconnect")) return hung_;
      if (Hangs(pc.Disconnect(), "Disconnect of P")) return hung_;
    }
    for (const Object& object : {Object(ac), Object(pc), Object(l), Object(aq), Object(pq)}) {
      if (object && Hangs(object.Close(), "Close")) return hung_;
    }
    return "";
  }
  const std::string& failed() const { return failed_; }

 private:
  bool Hangs(const Outcome& outcome, const char* what) {
    if (!outcome.inline_status().pending()) return false;
    if (!outcome.Wait(kPatience).pending()) return false;
    hung_ = std::string(what) + " hangs";
    return true;
  }
  Stage& stage_;
  std::string hung_, failed_;
};

struct Victim {
  const char* name;
  Who who;
};

class Sweep : public ::testing::TestWithParam<std::tuple<Mode, Victim>> {};

TEST_P(Sweep, DiesAtEachOfItsSystemCalls) {
  const auto& [mode, victim] = GetParam();
  auto stage = std::make_unique<Stage>(mode);
  ASSERT_EQ(stage->error(), "");
  if (mode.local && victim.who == kBrokerP) GTEST_SKIP() << "one broker: BrokerA is it";
  // Counts the calls of a life without a kill.
  stage->hold(victim.who).Arm(Point::kAnyCall, false, 1 << 30);
  Life whole(*stage);
  ASSERT_EQ(whole.Play(), "");
  ASSERT_EQ(whole.failed(), "");
  const auto calls = static_cast<int>(stage->hold(victim.who).counted());
  for (const std::string& fault : stage->CloseAndCompare()) ADD_FAILURE() << fault;
  const std::uint32_t points = GetSettings().points;
  const int step = points == 0 ? 1 : std::max(1, calls / static_cast<int>(points));
  std::set<std::string> names;
  int deaths = 0, survived = 0;
  // The number varies slightly, so the sweep ends after three lives in a row without a kill.
  for (int k = 1; survived < 3 && k < calls * 2 + 50; k += step) {
    SCOPED_TRACE(mode.name() + ", " + victim.name + " dies at its system call " + std::to_string(k));
    Hold& hold = stage->hold(victim.who);
    hold.Arm(Point::kAnyCall, k % 2 == 0, k, Act::kKill);
    Life life(*stage);
    const std::string hung = life.Play();
    hold.Disarm();
    bool clean = hung.empty();
    if (!hung.empty()) ADD_FAILURE() << hung << ", killed at " << hold.call() << "\n" << stage->Dump();
    if (hold.reached()) {
      survived = 0;
      ++deaths;
      names.insert(hold.call());
      stage->Kill(victim.who);
      stage->Revive();
    } else {
      ++survived;
      EXPECT_EQ(life.failed(), "");
    }
    if (stage->error().empty() && clean) {
      for (const std::string& fault : stage->CloseAndCompare()) {
        ADD_FAILURE() << "killed at " << hold.call() << ": " << fault;
        clean = false;
      }
    }
    if (!stage->error().empty()) ADD_FAILURE() << stage->error();
    if (!clean || !stage->error().empty()) {
      stage.reset();
      stage = std::make_unique<Stage>(mode);
      ASSERT_EQ(stage->error(), "");
    }
  }
  std::string list;
  for (const std::string& name : names) list += " " + name;
  std::printf("%s %s: %d system calls in a life, died %d times, at%s\n", mode.name().c_str(), victim.name,
              calls, deaths, list.c_str());
  EXPECT_GT(deaths, 3);
}

constexpr Victim kVictims[] = {{"Active", kA}, {"Passive", kP}, {"BrokerA", kBrokerA}, {"BrokerP", kBrokerP}};

INSTANTIATE_TEST_SUITE_P(Crash, Sweep,
                         ::testing::Combine(::testing::Values(Mode{true, false}, Mode{false, false}),
                                            ::testing::ValuesIn(kVictims)),
                         [](const auto& test) {
                           return std::get<0>(test.param).name() + "_" + std::get<1>(test.param).name;
                         });

}  // namespace
}  // namespace nd::crash
