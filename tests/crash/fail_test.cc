// SPDX-License-Identifier: Apache-2.0
// The whole life of a connection, in which one process meets a system call that fails, or an allocation: at
// each place in the program where it makes one, once, and from then on for ever (all calls of that name).
// Every operation ends, no process ends except by the documented message, and afterwards everything is as
// before.
#include <gtest/gtest.h>

#include <cstdio>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "tests/crash/life.h"
#include "tests/crash/settings.h"

namespace nd::crash {
namespace {

constexpr int kLives = 5;
constexpr char kOutOfMemory[] = "out of memory: the host or a limit";

// Returns each place once, of those that belong to this run.
std::vector<std::uint64_t> PlacesOfThisRun(const std::vector<std::uint64_t>& calls) {
  std::vector<std::uint64_t> places;
  std::uint32_t number = 0;
  for (const std::uint64_t place : std::set(calls.begin(), calls.end())) {
    if (number++ % GetSettings().parts == GetSettings().part % GetSettings().parts) places.push_back(place);
  }
  return places;
}

class Fail : public ::testing::TestWithParam<std::tuple<Mode, Victim>> {
 protected:
  void SetUp() override {
    const auto& [mode, victim] = GetParam();
    if (mode.local && victim.who == kBrokerP) GTEST_SKIP() << "one broker: BrokerA is it";
    Renew();
  }
  void Renew() {
    stage_.reset();
    stage_ = std::make_unique<Stage>(std::get<0>(GetParam()));
    ASSERT_EQ(stage_->error(), "");
  }
  Who who() const { return std::get<1>(GetParam()).who; }
  bool IsBroker() const { return who() == kBrokerA || who() == kBrokerP; }
  int side() const { return who() == kA || who() == kBrokerA ? 0 : 1; }
  bool Lives() {
    return IsBroker() ? stage_->broker(side()).running() : stage_->app(side()).process().running();
  }
  // The places of the calls of a life in which nothing fails.
  std::vector<std::uint64_t> Calls(Point point) {
    for (const int each : {0, 1}) static_cast<void>(stage_->app(each).Scratch());
    stage_->hold(who()).ArmFailure(point, 0, Act::kFail);
    Life whole(*stage_);
    EXPECT_EQ(whole.Play(), "");
    EXPECT_EQ(whole.failed(), "");
    std::vector<std::uint64_t> calls = stage_->hold(who()).places();
    stage_->hold(who()).Disarm();
    for (const std::string& fault : stage_->CloseAndCompare()) ADD_FAILURE() << fault;
    return calls;
  }
  // Plays a life with the failure. Returns the faults.
  std::vector<std::string> Meet(Point point, std::uint64_t place, Act act) {
    std::vector<std::string> faults;
    Hold& hold = stage_->hold(who());
    // The actor needs this memory of the test, so it is allocated before calls fail.
    for (const int each : {0, 1}) static_cast<void>(stage_->app(each).Scratch());
    hold.ArmFailure(point, place, act);
    // A broker that can never send or accept answers nobody. Its clients get their answers when the failures
    // end.
    const bool waits = IsBroker() && act == Act::kFailForEver;
    const std::string hung = Life(*stage_, waits ? milliseconds(2000) : kLifePatience).Play();
    if (!hung.empty() && !waits) faults.push_back(hung + "\n" + stage_->Dump());
    hold.Disarm();
    reached_ = hold.reached();
    // A failed allocation ends the broker, and the application unless it handles std::bad_alloc.
    const bool dies = point == Point::kAllocation && reached_;
    if (dies && IsBroker() && !Eventually([&] { return !Lives(); })) faults.push_back("the broker goes on");
    if (dies || !Lives()) {
      const std::string log = IsBroker() ? stage_->broker(side()).log() : "";
      const bool documented =
          point == Point::kAllocation && (!IsBroker() || log.find(kOutOfMemory) != std::string::npos);
      if (!documented) faults.push_back("the process ended" + (log.empty() ? log : ": " + log));
      stage_->Kill(who());
    }
    stage_->Revive();
    if (!stage_->error().empty()) {
      faults.push_back(stage_->error());
    } else if (faults.empty()) {
      faults = stage_->CloseAndCompare();
    }
    for (std::string& fault : faults) fault = hold.call() + ": " + fault;
    return faults;
  }
  void FailAtEachPlace(Point point) {
    const std::vector<std::uint64_t> calls = Calls(point), places = PlacesOfThisRun(calls);
    ASSERT_FALSE(calls.empty());
    std::map<std::string, int> met;
    for (const std::uint64_t place : places) {
      for (const Act act : {Act::kFail, Act::kFailForEver}) {
        SCOPED_TRACE(::testing::Message()
                     << "the call at " << std::hex << place
                     << (act == Act::kFail ? " fails" : " and all later ones of its name fail"));
        // Not each life comes to each place: some calls depend on the order of the processes.
        std::vector<std::string> faults = Meet(point, place, act);
        for (int life = 1; life < kLives && !reached_ && faults.empty(); ++life)
          faults = Meet(point, place, act);
        for (const std::string& fault : faults) ADD_FAILURE() << fault;
        if (reached_) ++met[stage_->hold(who()).call()];
        if (!faults.empty()) Renew();
        if (HasFatalFailure()) return;
      }
    }
    std::string list;
    for (const auto& [call, count] : met) list += " " + call + " " + std::to_string(count);
    std::printf("%s %s: %zu calls in a life, %zu places in this run; failed:%s\n",
                std::get<0>(GetParam()).name().c_str(), std::get<1>(GetParam()).name, calls.size(),
                places.size(), list.c_str());
    EXPECT_EQ(met.empty(), places.empty());
  }

  std::unique_ptr<Stage> stage_;
  std::vector<std::uint64_t> calls_;
  int status_ = 0;
  bool reached_ = false;
};

class FailAtStart : public Fail {};

// docs/architecture.md: without its event loop the broker, and gRPC in it, ends at the start by SIGABRT.
bool IsDocumented(const std::string& log) {
  for (const char* text :
       {"cannot create an event loop", "ev_epoll1_linux.cc", "Eventfd wakeup fd", "low_level_alloc.cc"}) {
    if (log.find(text) != std::string::npos) return true;
  }
  return false;
}

// A call fails while the broker starts again. The broker serves, or it ends with a message and its successor
// serves. The connection that existed stays.
TEST_P(FailAtStart, SystemCalls) {
  const auto round = [&](std::uint64_t place) -> std::string {
    const Hold& hold = stage_->hold(who());
    Actor &a = stage_->app(0), &p = stage_->app(1);
    const std::uint16_t port = stage_->NewPort();
    const Listener l = p.CreateListener();
    const Qp aq = a.CreateQp(), pq = p.CreateQp();
    const Connector ac = a.CreateConnector(), pc = p.CreateConnector();
    if (!l.Bind(stage_->address(1, port)).ok() || !l.Listen().ok() || !ac.Bind(stage_->address(0, 0)).ok())
      return "no listener";
    const Outcome connect = ac.Connect(aq, stage_->address(1, port));
    if (!l.GetConnectionRequest(pc).Wait().ok()) return "no request";
    const Outcome accept = pc.Accept(pq);
    if (!connect.Wait().ok() || !ac.CompleteConnect().Wait().ok() || !accept.Wait().ok())
      return "no connection";
    stage_->Kill(who());
    const std::string before = stage_->broker(side()).log();
    stage_->hold(who()).ArmFailure(Point::kAnyCall, place, Act::kFail);
    const bool serves = stage_->TryStart(side());
    calls_ = hold.places();
    reached_ = hold.reached();
    stage_->hold(who()).Disarm();
    const std::string log = stage_->broker(side()).log().substr(before.size());
    if (!serves && stage_->broker(side()).running()) return "neither serves nor ends: " + log;
    if (!serves && log.empty()) return "the broker ended without a message";
    if (!serves) status_ = stage_->broker(side()).EndedBySignal();
    if (!serves && status_ != 0 && !IsDocumented(log))
      return "the broker ended by signal " + std::to_string(status_) + ": " + log;
    if (serves) stage_->Started(who());
    stage_->Revive();
    if (!stage_->error().empty()) return stage_->error();
    std::string traffic = Traffic(a, aq, p, pq);
    if (!traffic.empty()) return "the connection has ended: " + traffic;
    if (serves) {  // The broker may serve without a part that could not start; its successor has every part.
      stage_->Kill(who());
      stage_->Revive();
      if (!stage_->error().empty()) return stage_->error();
      traffic = Traffic(a, aq, p, pq);
      if (!traffic.empty()) return "the connection has ended afterwards: " + traffic;
    }
    for (const std::string& fault : stage_->CloseAndCompare()) traffic += fault + "; ";
    return traffic;
  };
  ASSERT_EQ(round(0), "");
  const std::vector<std::uint64_t> calls = calls_, places = PlacesOfThisRun(calls);
  ASSERT_FALSE(calls.empty());
  std::map<std::string, int> met;
  for (const std::uint64_t place : places) {
    SCOPED_TRACE(::testing::Message() << "the call at " << std::hex << place << " fails");
    const std::string fault = round(place);
    const std::string call = stage_->hold(who()).call();
    EXPECT_EQ(fault, "") << call;
    if (reached_) ++met[call];
    if (!fault.empty()) Renew();
    if (HasFatalFailure()) return;
  }
  std::string list;
  for (const auto& [call, count] : met) list += " " + call + " " + std::to_string(count);
  std::printf("%s %s: %zu calls at the start, %zu places in this run; failed:%s\n",
              std::get<0>(GetParam()).name().c_str(), std::get<1>(GetParam()).name, calls.size(),
              places.size(), list.c_str());
  EXPECT_EQ(met.empty(), places.empty());
}

TEST_P(Fail, SystemCalls) {
  FailAtEachPlace(Point::kAnyCall);
}
TEST_P(Fail, Allocations) {
  FailAtEachPlace(Point::kAllocation);
}

INSTANTIATE_TEST_SUITE_P(Crash, FailAtStart,
                         ::testing::Values(std::tuple(Mode{true, false}, kVictims[2]),
                                           std::tuple(Mode{false, false}, kVictims[3])),
                         [](const auto& test) {
                           return std::get<0>(test.param).name() + "_" + std::get<1>(test.param).name;
                         });
INSTANTIATE_TEST_SUITE_P(Crash, Fail,
                         ::testing::Combine(::testing::Values(Mode{true, false}, Mode{false, false}),
                                            ::testing::ValuesIn(kVictims)),
                         [](const auto& test) {
                           return std::get<0>(test.param).name() + "_" + std::get<1>(test.param).name;
                         });

}  // namespace
}  // namespace nd::crash
