// SPDX-License-Identifier: Apache-2.0
#include <sched.h>
#include <sys/stat.h>

#include "provider/soft/qp/testing_os.h"

namespace nd::provider::soft {

int CurrentProcessor() {
  return sched_getcpu();
}

bool PinThisThread(int processor) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(processor, &set);
  return sched_setaffinity(0, sizeof set, &set) == 0;
}

// By device and inode.
std::multiset<std::pair<std::uint64_t, std::uint64_t>> OpenDescriptors() {
  std::multiset<std::pair<std::uint64_t, std::uint64_t>> open;
  struct stat file;
  for (int fd = 0; fd < 1024; ++fd) {
    if (fstat(fd, &file) == 0) open.emplace(file.st_dev, file.st_ino);
  }
  return open;
}

}  // namespace nd::provider::soft
