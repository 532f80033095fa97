// SPDX-License-Identifier: Apache-2.0
#include "tests/conformance/intruder.h"

#include <dirent.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <set>
#include <string>

#include "base/unique_fd.h"

namespace nd::conformance {
namespace {

// Returns a path for each shared anonymous memory that the process maps.
std::set<std::string> SharedMemoryOf(pid_t owner) {
  std::set<std::string> paths;
  std::error_code ended;
  for (const auto& entry :
       std::filesystem::directory_iterator("/proc/" + std::to_string(owner) + "/map_files", ended)) {
    const std::string target = std::filesystem::read_symlink(entry.path(), ended).string();
    if (target.starts_with("/memfd:")) paths.insert(entry.path().string());
  }
  return paths;
}

}  // namespace

int WaysInto(pid_t owner) {
  const pid_t thief = fork();
  if (thief == 0) {
    if (setresgid(65534, 65534, 65534) != 0 || setresuid(65534, 65534, 65534) != 0) _exit(100);
    const std::string proc = "/proc/" + std::to_string(owner);
    for (const char* name : {"/fd", "/map_files"}) {
      if (opendir((proc + name).c_str()) != nullptr) _exit(1);
    }
    if (open((proc + "/mem").c_str(), O_RDONLY | O_CLOEXEC) >= 0) _exit(2);
    const int process = static_cast<int>(syscall(SYS_pidfd_open, owner, 0));
    if (process < 0) _exit(101);
    for (int fd = 0; fd < 256; ++fd) {
      if (syscall(SYS_pidfd_getfd, process, fd, 0) >= 0) _exit(3);
    }
    _exit(0);
  }
  int status = 0;
  return waitpid(thief, &status, 0) == thief && WIFEXITED(status) ? WEXITSTATUS(status) : 102;
}

void ExpectFixedMemory(pid_t owner) {
  const std::set<std::string> shared = SharedMemoryOf(owner);
  int checked = 0;
  for (const std::string& path : shared) {
    const UniqueFd fd(open(path.c_str(), O_RDWR | O_CLOEXEC));
    if (!fd) continue;  // Memory that is mapped for reading and sealed against writing.
    constexpr int kFixed = F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL;
    EXPECT_EQ(fcntl(fd.get(), F_GET_SEALS) & kFixed, kFixed) << path;
    EXPECT_NE(ftruncate(fd.get(), 0), 0) << path;
    ++checked;
  }
  EXPECT_GT(checked, 0) << "the counters at least";
}

}  // namespace nd::conformance
