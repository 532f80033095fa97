// SPDX-License-Identifier: Apache-2.0
// The event log stands for the journal: a service writes to it, besides to its log file.
#include "daemon/ops/journal_log.h"

#include <windows.h>

#include <cstdio>
#include <optional>
#include <string>
#include <vector>

#include "base/os/access_win.h"
#include "base/os/service_control_win.h"
#include "daemon/ops/event_log_win.h"

namespace nd::ops {
namespace {

HANDLE& Source() {
  static HANDLE source = nullptr;
  return source;
}

// A file of its own: a service has no standard error, and Wine cannot open that again.
std::FILE*& File() {
  static std::FILE* file = stderr;
  return file;
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

bool LogToFile(const std::string& path) {
  std::FILE* const file = ::_wfopen(os::WidePath(path).c_str(), L"a");
  if (file == nullptr) return false;
  File() = file;
  return true;
}

void OpenJournal(const std::string&) {
  Source() = ::RegisterEventSourceA(nullptr, "ndbrokerd");
}

std::optional<LogEvent> EventOf(int priority, std::string_view message, const LogFields& fields) {
  const bool about_event = !fields.event.empty();
  if (priority > 6 && !about_event) return std::nullopt;
  LogEvent event{EVENTLOG_INFORMATION_TYPE, about_event ? kAboutEvent : kLine, {std::string(message)}};
  if (priority <= 3) {
    event.type = EVENTLOG_ERROR_TYPE;
  } else if (priority == 4) {
    event.type = EVENTLOG_WARNING_TYPE;
  }
  if (about_event)
    event.strings.insert(event.strings.end(), {std::string(fields.event), std::string(fields.object)});
  return event;
}

void SendToJournal(int priority, std::string_view message, const LogFields& fields) {
  const std::string text(message);
  SYSTEMTIME now;
  ::GetSystemTime(&now);
  std::fprintf(File(), "%04u-%02u-%02uT%02u:%02u:%02u.%03uZ %s %s\n", now.wYear, now.wMonth, now.wDay,
               now.wHour, now.wMinute, now.wSecond, now.wMilliseconds, LevelOf(priority), text.c_str());
  std::fflush(File());
  const std::optional<LogEvent> event = EventOf(priority, message, fields);
  if (Source() == nullptr || !event) return;
  std::vector<const char*> strings;
  for (const std::string& string : event->strings) strings.push_back(string.c_str());
  ::ReportEventA(Source(), event->type, 0, event->id, nullptr, static_cast<WORD>(strings.size()), 0,
                 strings.data(), nullptr);
}

}  // namespace nd::ops
