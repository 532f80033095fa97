// SPDX-License-Identifier: Apache-2.0
#include "base/os/object_win.h"
#include "tests/bench/machine.h"

#include <filesystem>

#include "tests/testing/channel.h"

namespace nd::perf {

void PrepareProgram() {}

std::string OwnProgram() {
  return (std::filesystem::path(testing::BinaryDirectory()) / "ndperf.exe").string();
}

std::vector<int> AllowedCpus() {
  DWORD_PTR allowed = 0, all = 0;
  std::vector<int> cpus;
  if (::GetProcessAffinityMask(::GetCurrentProcess(), &allowed, &all) == 0) return cpus;
  for (int cpu = 0; cpu < 64; ++cpu) {
    if ((allowed >> cpu & 1) != 0) cpus.push_back(cpu);
  }
  return cpus;
}

std::string MakeScratchDirectory() {
  return testing::MakeTempDirectory("ndperf-");
}

// The parent gives a pipe by another way than a number on the command line.
bool WriteReport(int /*fd*/, const std::string& text) {
  return testing::WriteAll(testing::OwnDescriptor3(), text.data(), text.size());
}

}  // namespace nd::perf
