// SPDX-License-Identifier: Apache-2.0
#include "daemon/ops/event_log_win.h"

#include <gtest/gtest.h>
#include <windows.h>

#include <fstream>
#include <sstream>

#include "base/os/self.h"
#include "daemon/ops/journal_log.h"

namespace nd::ops {
namespace {

using Strings = std::vector<std::string>;

TEST(EventLog, LineHasTheTypeOfItsLevel) {
  EXPECT_EQ(EventOf(3, "broken", {}), (LogEvent{EVENTLOG_ERROR_TYPE, kLine, Strings{"broken"}}));
  EXPECT_EQ(EventOf(4, "odd", {}), (LogEvent{EVENTLOG_WARNING_TYPE, kLine, Strings{"odd"}}));
  EXPECT_EQ(EventOf(6, "serves", {}), (LogEvent{EVENTLOG_INFORMATION_TYPE, kLine, Strings{"serves"}}));
  EXPECT_EQ(EventOf(7, "a step", {}), std::nullopt);
}

TEST(EventLog, EventOfAConnectionCanBeFoundByItsNameAndItsId) {
  EXPECT_EQ(EventOf(4, "killed", {"connection.killed", "c-12"}),
            (LogEvent{EVENTLOG_WARNING_TYPE, kAboutEvent, Strings{"killed", "connection.killed", "c-12"}}));
  EXPECT_EQ(
      EventOf(7, "up", {"connection.established", "c-12"}),
      (LogEvent{EVENTLOG_INFORMATION_TYPE, kAboutEvent, Strings{"up", "connection.established", "c-12"}}));
  EXPECT_EQ(EventOf(7, "gone", {"adapter.removed", ""}),
            (LogEvent{EVENTLOG_INFORMATION_TYPE, kAboutEvent, Strings{"gone", "adapter.removed", ""}}));
}

// The line of the file. Nobody can read the event log of Wine; tests/windows/service.sh sees what the system
// is told.
TEST(EventLog, LineIsAlsoInTheFile) {
  OpenJournal();
  testing::internal::CaptureStderr();
  SendToJournal(4, "killed by the administrator", {"connection.killed", "c-12"});
  const std::string line = testing::internal::GetCapturedStderr();
  EXPECT_TRUE(line.ends_with("Z warning killed by the administrator\n")) << line;

  const std::string file = testing::TempDir() + "event-log-test-" + std::to_string(os::ProcessNumber());
  ASSERT_TRUE(LogToFile(file));
  SendToJournal(3, "no memory", {});
  SendToJournal(6, "serves", {});
  std::ostringstream text;
  text << std::ifstream(file).rdbuf();
  EXPECT_NE(text.view().find("Z error no memory\n"), std::string::npos) << text.view();
  EXPECT_TRUE(text.view().ends_with("Z info serves\n")) << text.view();
}

}  // namespace
}  // namespace nd::ops
