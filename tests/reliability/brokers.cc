// SPDX-License-Identifier: Apache-2.0
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>

#include "tests/reliability/parts.h"

namespace nd::reliability {

Place::Place() : path_(testing::MakeTempDirectory("ndreliability-")) {
  ::chmod(path_.c_str(), 0777);
}
Place::~Place() {
  testing::RemoveTree(path_);
}

testing::DaemonOptions BrokerAt(int host) {
  testing::DaemonOptions options;
  options.adapters = {"name = \"soft0\"\naddresses = [\"127.0.0." + std::to_string(host) + "\"]"};
  return options;
}

std::uint64_t ResidentBytes(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/statm");
  std::uint64_t size = 0, resident = 0;
  file >> size >> resident;
  return resident * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}

}  // namespace nd::reliability
