// SPDX-License-Identifier: Apache-2.0
// Apart from the log itself because only this part needs libsystemd.
#define SD_JOURNAL_SUPPRESS_LOCATION  // It would always name this file.
#include <sys/stat.h>
#include <sys/uio.h>
#include <systemd/sd-journal.h>

#include <cstdio>

#include "daemon/ops/journal_log.h"

namespace nd::ops {
namespace {

const char* FieldOf(std::string_view object) {
  if (object.size() < 2 || object[1] != '-') return "NDB_OBJECT";
  switch (object[0]) {
    case 's':
      return "NDB_SESSION";
    case 'c':
      return "NDB_CONNECTION";
    case 'l':
      return "NDB_LISTENER";
    case 'e':
      return "NDB_ENDPOINT";
    default:
      return "NDB_OBJECT";
  }
}

}  // namespace

bool IsJournalStream(const char* journal_stream, int fd) {
  unsigned long long device = 0, inode = 0;
  int end = 0;
  if (journal_stream == nullptr || std::sscanf(journal_stream, "%llu:%llu%n", &device, &inode, &end) != 2 ||
      journal_stream[end] != 0) {
    return false;
  }
  struct stat st;
  return ::fstat(fd, &st) == 0 && st.st_dev == device && st.st_ino == inode;
}

std::vector<std::string> JournalFields(int priority, std::string_view message, const LogFields& fields) {
  std::vector<std::string> lines;
  const auto add = [&lines](std::string_view name, std::string_view value) {
    lines.push_back(std::string(name) + "=" + std::string(value));
  };
  add("MESSAGE", message);
  add("PRIORITY", std::to_string(priority));
  add("SYSLOG_IDENTIFIER", "ndbrokerd");
  if (!fields.event.empty()) add("NDB_EVENT", fields.event);
  if (!fields.object.empty()) add(FieldOf(fields.object), fields.object);
  return lines;
}

void SendToJournal(int priority, std::string_view message, const LogFields& fields) {
  std::vector<std::string> lines = JournalFields(priority, message, fields);
  std::vector<iovec> parts;
  for (std::string& line : lines) parts.push_back({line.data(), line.size()});
  static_cast<void>(sd_journal_sendv(parts.data(), static_cast<int>(parts.size())));
}

}  // namespace nd::ops
