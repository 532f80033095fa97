// SPDX-License-Identifier: Apache-2.0
// Reads /proc and limits, so that other files need not know the formats.
#include "daemon/ops/process.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <string_view>

#include "base/unique_fd.h"
#include "daemon/ops/logging.h"

namespace nd::ops {
namespace {

// The kernel's table takes 8 bytes for each.
constexpr std::uint64_t kRoomForFds = 65536;

std::string ReadSmallFile(const std::string& path) {
  UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd) return {};
  std::array<char, 16384> buffer;
  const ssize_t n = ::read(fd.get(), buffer.data(), buffer.size());
  return n <= 0 ? std::string() : std::string(buffer.data(), static_cast<std::size_t>(n));
}

std::string FirstLine(const std::string& text) {
  return text.substr(0, text.find('\n'));
}

}  // namespace

void EndWhenMemoryRunsOut() {
  std::set_new_handler([] {
    // Not by the logger, which needs memory.
    constexpr std::string_view kText =
        "out of memory: the host or a limit (RLIMIT_AS, MemoryMax) refuses an allocation; ending, to be "
        "started again\n";
    (void)!::write(STDERR_FILENO, kText.data(), kText.size());
    std::abort();
  });
}

std::uint64_t RaiseFdLimit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
    limit.rlim_cur = limit.rlim_max;
    ::setrlimit(RLIMIT_NOFILE, &limit);
  }
  const std::uint64_t room = std::min<std::uint64_t>(FdLimit(), kRoomForFds);
  const UniqueFd any(::open("/", O_PATH | O_CLOEXEC));
  const UniqueFd highest(::fcntl(any.get(), F_DUPFD_CLOEXEC, static_cast<int>(room) - 1));
  return FdLimit();
}

std::uint64_t FdLimit() {
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  return limit.rlim_cur;
}

std::uint32_t OpenFds() {
  DIR* directory = ::opendir("/proc/self/fd");
  if (directory == nullptr) return 0;
  std::uint32_t count = 0;
  while (const dirent* entry = ::readdir(directory)) count += entry->d_name[0] != '.';
  ::closedir(directory);
  return count == 0 ? 0 : count - 1;  // Without the descriptor that reads the directory.
}

std::uint64_t ResidentBytes() {
  const std::string text = ReadSmallFile("/proc/self/statm");
  unsigned long long size = 0, resident = 0;
  if (std::sscanf(text.c_str(), "%llu %llu", &size, &resident) != 2) return 0;
  return resident * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}

std::string CommandOf(std::uint32_t pid) {
  if (pid == 0) return {};
  return Printable(FirstLine(ReadSmallFile("/proc/" + std::to_string(pid) + "/comm")), 64);
}

std::string CgroupsOf(std::uint32_t pid) {
  return pid == 0 ? std::string() : ReadSmallFile("/proc/" + std::to_string(pid) + "/cgroup");
}

std::uint64_t BornOf(std::uint32_t pid) {
  if (pid == 0) return 0;
  const std::string text = ReadSmallFile("/proc/" + std::to_string(pid) + "/stat");
  // The name of the command, in parentheses, may contain any character; the third field follows the last
  // parenthesis.
  const std::size_t name_end = text.rfind(')');
  if (name_end == text.npos) return 0;
  constexpr int kStartTime = 22;
  std::size_t at = name_end + 1;
  for (int field = 3; field <= kStartTime; ++field) {
    at = text.find_first_not_of(' ', at);
    if (at == text.npos) return 0;
    if (field == kStartTime) return std::strtoull(text.c_str() + at, nullptr, 10);
    at = text.find(' ', at);
  }
  return 0;
}

}  // namespace nd::ops
