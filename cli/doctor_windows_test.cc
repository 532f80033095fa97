// SPDX-License-Identifier: Apache-2.0
#include "cli/doctor_windows.h"

#include <gtest/gtest.h>

#include <map>

namespace nd::cli {
namespace {

WindowsFacts HealthyWindows() {
  WindowsFacts facts;
  facts.directory = "C:\\ProgramData\\NdBroker";
  facts.directory_exists = facts.access_known = facts.ours = true;
  facts.lane = {"C:\\ProgramData\\NdBroker\\client\\lane.sock", SocketState::kAnswers};
  facts.service = ServiceState::kRunning;
  facts.service_automatic = facts.event_source = true;
  facts.service_pid = 44;
  return facts;
}

BrokerFacts AnsweringService() {
  BrokerFacts broker;
  broker.answers = true;
  broker.version = "0.1.0";
  broker.pid = 44;
  return broker;
}

std::map<std::string, Verdict> Judged(const WindowsFacts& facts,
                                      const BrokerFacts& broker = AnsweringService()) {
  std::map<std::string, Verdict> verdicts;
  for (const Verdict& verdict : JudgeWindows(facts, broker)) {
    EXPECT_EQ(verdict.verdict == "PASS", verdict.remedy.empty()) << verdict.name << ": " << verdict.finding;
    verdicts[verdict.name] = verdict;
  }
  return verdicts;
}

TEST(DoctorWindowsTest, HealthyHostPassesEveryCheck) {
  for (const auto& [name, verdict] : Judged(HealthyWindows())) EXPECT_EQ(verdict.verdict, "PASS") << name;
}

TEST(DoctorWindowsTest, DirectoryIsForTheBrokerAlone) {
  WindowsFacts facts = HealthyWindows();
  facts.others_read = true;
  EXPECT_EQ(Judged(facts)["directory"].verdict, "WARN");
  facts.others_write = true;
  EXPECT_EQ(Judged(facts)["directory"].verdict, "FAIL");
  facts = HealthyWindows();
  facts.ours = false;
  EXPECT_EQ(Judged(facts)["directory"].verdict, "FAIL");
  facts.access_known = false;
  EXPECT_EQ(Judged(facts)["directory"].verdict, "WARN");
  facts.directory_exists = false;
  EXPECT_EQ(Judged(facts)["directory"].verdict, "FAIL");
}

TEST(DoctorWindowsTest, PipeOfApplicationsSaysWhyItRefuses) {
  WindowsFacts facts = HealthyWindows();
  for (const SocketState state : {SocketState::kAbsent, SocketState::kForbidden, SocketState::kSilent}) {
    facts.lane.state = state;
    EXPECT_EQ(Judged(facts)["sockets"].verdict, "FAIL");
  }
}

TEST(DoctorWindowsTest, ServiceIsComparedWithTheBrokerThatAnswers) {
  WindowsFacts facts = HealthyWindows();
  facts.service_automatic = false;
  EXPECT_EQ(Judged(facts)["service"].verdict, "WARN");
  facts = HealthyWindows();
  facts.service_pid = 45;
  EXPECT_NE(Judged(facts)["service"].finding.find("pid 45"), std::string::npos);
  facts.service = ServiceState::kStopped;
  EXPECT_EQ(Judged(facts)["service"].verdict, "WARN");
  BrokerFacts silent;
  silent.problem = "no broker answers";
  silent.hint = "start it";
  EXPECT_EQ(Judged(facts, silent)["service"].verdict, "FAIL");
  EXPECT_EQ(Judged(facts, silent)["broker"].verdict, "FAIL");
  for (const ServiceState state : {ServiceState::kAbsent, ServiceState::kUnknown}) {
    facts.service = state;
    EXPECT_EQ(Judged(facts)["service"].verdict, "WARN");
  }
}

TEST(DoctorWindowsTest, SourceOfEventsMattersToTheService) {
  WindowsFacts facts = HealthyWindows();
  facts.event_source = false;
  EXPECT_EQ(Judged(facts)["event log"].verdict, "WARN");
  facts.service = ServiceState::kAbsent;
  facts.service_pid = 0;
  EXPECT_EQ(Judged(facts)["event log"].verdict, "PASS");
}

}  // namespace
}  // namespace nd::cli
