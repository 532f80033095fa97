// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <thread>

#include "base/unique_fd.h"
#include "tests/testing/programs_os.h"

namespace nd::testing {

pid_t OwnProcess() {
  return getpid();
}

std::size_t ResidentKilobytes() {
  std::ifstream file("/proc/self/statm");
  std::size_t size = 0, resident = 0;
  file >> size >> resident;
  return resident * static_cast<std::size_t>(sysconf(_SC_PAGESIZE)) / 1024;
}

Meeting::Meeting(const std::string& path) {
  const UniqueFd fd(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (ftruncate(fd.get(), 4096) != 0) std::abort();
  arrived_ = static_cast<std::atomic<std::uint32_t>*>(
      mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0));
}

Meeting::~Meeting() {
  munmap(arrived_, 4096);
}

void Meeting::Wait() {
  const std::uint32_t mine = arrived_->fetch_add(1);
  const std::uint32_t full = (mine / 2 + 1) * 2;
  while (arrived_->load() < full) std::this_thread::yield();
}

}  // namespace nd::testing
