// SPDX-License-Identifier: Apache-2.0
// The event log stands for the journal: a service writes to it, besides to its log file, which is its stderr.
// The event log gets no lines for debugging.
#include "daemon/ops/journal_log.h"

#include <windows.h>

#include <cstdio>

#include "base/os/service_control_win.h"

namespace nd::ops {
namespace {

// The only message of events.mc: "%1".
constexpr DWORD kLine = 1;

HANDLE& Source() {
  static HANDLE source = nullptr;
  return source;
}

WORD TypeOf(int priority) {
  if (priority <= 3) return EVENTLOG_ERROR_TYPE;
  return priority == 4 ? EVENTLOG_WARNING_TYPE : EVENTLOG_INFORMATION_TYPE;
}

const char* LevelOf(int priority) {
  if (priority <= 3) return "error";
  if (priority == 4) return "warning";
  return priority == 6 ? "info" : "debug";
}

}  // namespace

bool IsJournalStream(const char*, int) {
  return os::service::IsThisProcess();
}

void OpenJournal(const std::string&) {
  Source() = ::RegisterEventSourceA(nullptr, "ndbrokerd");
}

void SendToJournal(int priority, std::string_view message, const LogFields&) {
  const std::string text(message);
  SYSTEMTIME now;
  ::GetSystemTime(&now);
  std::fprintf(stderr, "%04u-%02u-%02uT%02u:%02u:%02u.%03uZ %s %s\n", now.wYear, now.wMonth, now.wDay,
               now.wHour, now.wMinute, now.wSecond, now.wMilliseconds, LevelOf(priority), text.c_str());
  std::fflush(stderr);
  if (Source() == nullptr || priority > 6) return;
  const char* const texts[] = {text.c_str()};
  ::ReportEventA(Source(), TypeOf(priority), 0, kLine, nullptr, 1, 0, const_cast<const char**>(texts),
                 nullptr);
}

}  // namespace nd::ops
