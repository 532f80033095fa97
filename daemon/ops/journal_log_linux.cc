// SPDX-License-Identifier: Apache-2.0
// Implements the protocol of the journal itself, because the sender of libsystemd blocks on a hanging
// journal, and with it the loop.
#include "daemon/ops/journal_log.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <mutex>

#include "base/unique_fd.h"

namespace nd::ops {
namespace {

struct SystemdJournal {
  std::mutex mutex;
  UniqueFd fd;
  sockaddr_un address{};
  socklen_t length = 0;
  std::uint64_t lost = 0;

  bool Send(const std::string& datagram) {
    return fd && ::sendto(fd.get(), datagram.data(), datagram.size(), MSG_NOSIGNAL,
                          reinterpret_cast<const sockaddr*>(&address), length) >= 0;
  }
};
// Lives until the last thread has logged its last line.
SystemdJournal& TheJournal() {
  static SystemdJournal* const journal = new SystemdJournal;
  return *journal;
}

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

std::string EncodeForJournal(const std::vector<std::string>& fields) {
  std::string out;
  for (const std::string& field : fields) {
    if (field.find('\n') == std::string::npos) {
      out += field + "\n";
      continue;
    }
    // NAME, end of line, 64 bits of length, the value, end of line.
    const std::size_t equals = field.find('=');
    const std::uint64_t size = field.size() - equals - 1;
    out += field.substr(0, equals) + "\n";
    for (int bits = 0; bits < 64; bits += 8) out += static_cast<char>(size >> bits & 0xFF);
    out += field.substr(equals + 1) + "\n";
  }
  return out;
}

void OpenJournal(const std::string& socket) {
  SystemdJournal& journal = TheJournal();
  std::lock_guard lock(journal.mutex);
  journal.address.sun_family = AF_UNIX;
  const std::size_t size = std::min(socket.size(), sizeof journal.address.sun_path - 1);
  std::memcpy(journal.address.sun_path, socket.data(), size);
  journal.length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + size + 1);
  journal.address.sun_path[size] = '\0';
  journal.fd.reset(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
}

void SendToJournal(int priority, std::string_view message, const LogFields& fields) {
  const std::string datagram = EncodeForJournal(JournalFields(priority, message, fields));
  SystemdJournal& journal = TheJournal();
  std::lock_guard lock(journal.mutex);
  if (!journal.Send(datagram)) {
    ++journal.lost;
  } else if (journal.lost != 0) {
    const std::string text =
        std::to_string(journal.lost) + " lines before this one were refused by the journal";
    if (journal.Send(EncodeForJournal(JournalFields(4, text, {})))) journal.lost = 0;
  }
}

}  // namespace nd::ops
