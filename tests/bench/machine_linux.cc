// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/machine.h"

#include <sched.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <cstring>

namespace nd::perf {

void PrepareProgram() {
  std::signal(SIGPIPE, SIG_IGN);
  setenv("GRPC_VERBOSITY", "NONE", 0);
}

std::string OwnProgram() {
  char path[4096];
  const ssize_t length = readlink("/proc/self/exe", path, sizeof(path));
  return length > 0 ? std::string(path, static_cast<std::size_t>(length)) : std::string("ndperf");
}

std::vector<int> AllowedCpus() {
  cpu_set_t allowed;
  std::vector<int> cpus;
  if (sched_getaffinity(0, sizeof(allowed), &allowed) != 0) return cpus;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(static_cast<std::size_t>(cpu), &allowed)) cpus.push_back(cpu);
  }
  return cpus;
}

std::string MakeScratchDirectory() {
  const char* tmp = std::getenv("TMPDIR");
  std::string name = std::string(tmp == nullptr || std::strlen(tmp) > 60 ? "/tmp" : tmp) + "/ndperf-XXXXXX";
  return mkdtemp(name.data()) == nullptr ? std::string() : name;
}

bool WriteReport(int fd, const std::string& text) {
  return write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size());
}

}  // namespace nd::perf
