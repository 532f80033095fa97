// SPDX-License-Identifier: Apache-2.0
#include "daemon/ops/process.h"

#include "base/os/object_win.h"

#include <psapi.h>

#include <cstdlib>
#include <iterator>
#include <new>
#include <string_view>

#include "daemon/ops/logging.h"

namespace nd::ops {
namespace {

os::Handle OpenToAsk(std::uint32_t pid) {
  return pid == 0 ? os::Handle() : os::Handle(::OpenProcess(PROCESS_QUERY_LIMITED_INFORMATION, FALSE, pid));
}

}  // namespace

void EndWhenMemoryRunsOut() {
  std::set_new_handler([] {
    // Not by the logger, which needs memory.
    constexpr std::string_view kText =
        "out of memory: the host refuses an allocation; ending, to be started again\n";
    DWORD written;
    ::WriteFile(::GetStdHandle(STD_ERROR_HANDLE), kText.data(), static_cast<DWORD>(kText.size()), &written,
                nullptr);
    std::abort();
  });
}

// A process of Windows has no limit of handles that it could raise; 2^24 is that of the system.
std::uint64_t RaiseFdLimit() {
  return FdLimit();
}

std::uint64_t FdLimit() {
  return std::uint64_t{1} << 24;
}

std::uint32_t OpenFds() {
  DWORD count = 0;
  return ::GetProcessHandleCount(::GetCurrentProcess(), &count) != 0 ? count : 0;
}

std::uint64_t ResidentBytes() {
  PROCESS_MEMORY_COUNTERS counters{};
  counters.cb = sizeof counters;
  return ::K32GetProcessMemoryInfo(::GetCurrentProcess(), &counters, sizeof counters) != 0
             ? counters.WorkingSetSize
             : 0;
}

std::string CommandOf(std::uint32_t pid) {
  const os::Handle process = OpenToAsk(pid);
  wchar_t path[1024];
  DWORD size = std::size(path);
  if (!process || ::QueryFullProcessImageNameW(process.get(), 0, path, &size) == 0) return {};
  const std::wstring_view whole(path, size);
  std::string name;
  for (const wchar_t c : whole.substr(whole.rfind(L'\\') + 1)) {
    name += c < 0x80 ? static_cast<char>(c) : '?';
  }
  return Printable(name, 64);
}

// Windows has no control groups.
std::string CgroupsOf(std::uint32_t) {
  return {};
}

std::uint64_t BornOf(std::uint32_t pid) {
  const os::Handle process = OpenToAsk(pid);
  FILETIME made, ended, kernel, user;
  if (!process || ::GetProcessTimes(process.get(), &made, &ended, &kernel, &user) == 0) return 0;
  return std::uint64_t{made.dwHighDateTime} << 32 | made.dwLowDateTime;
}

}  // namespace nd::ops
