// SPDX-License-Identifier: Apache-2.0
#include "base/os/object_win.h"
#include "tests/testing/programs_os.h"

#include <psapi.h>

#include <cstdlib>

#include "base/os/access_win.h"

namespace nd::testing {

pid_t OwnProcess() {
  return static_cast<pid_t>(::GetCurrentProcessId());
}

std::size_t ResidentKilobytes() {
  PROCESS_MEMORY_COUNTERS counters{};
  if (::K32GetProcessMemoryInfo(::GetCurrentProcess(), &counters, sizeof counters) == 0) std::abort();
  return counters.WorkingSetSize / 1024;
}

Meeting::Meeting(const std::string& path) {
  const os::Handle file(::CreateFileW(os::WidePath(path).c_str(), GENERIC_READ | GENERIC_WRITE,
                                      FILE_SHARE_READ | FILE_SHARE_WRITE, nullptr, OPEN_ALWAYS, 0, nullptr));
  const os::Handle section(file ? ::CreateFileMappingW(file.get(), nullptr, PAGE_READWRITE, 0, 4096, nullptr)
                                : nullptr);
  void* const view = section ? ::MapViewOfFile(section.get(), FILE_MAP_WRITE, 0, 0, 4096) : nullptr;
  if (view == nullptr) std::abort();
  arrived_ = static_cast<std::atomic<std::uint32_t>*>(view);
}

Meeting::~Meeting() {
  ::UnmapViewOfFile(arrived_);
}

// A thread that only yields takes the processor from the server of Wine, for which the other one waits.
void Meeting::Wait() {
  const std::uint32_t mine = arrived_->fetch_add(1);
  const std::uint32_t full = (mine / 2 + 1) * 2;
  for (int turn = 0; arrived_->load() < full; ++turn) ::Sleep(turn < 100 ? 0 : 1);
}

}  // namespace nd::testing
