// SPDX-License-Identifier: Apache-2.0
// Fixed columns, for reading in a log.
#include "tests/crash/table.h"

#include <algorithm>
#include <cstdio>
#include <map>

namespace nd::crash {

Table& Table::Get() {
  static Table table;
  return table;
}

void Table::Print() const {
  if (rows_.empty()) return;
  std::printf("\n%-14s %-35s %-16s %9s  %s\n", "mode", "step", "killed", "ms", "what the others saw");
  std::map<std::string, std::vector<double>> times;
  for (const Row& row : rows_) {
    std::printf("%-14s %-35s %-16s %9.1f  %s\n", row.mode.c_str(), row.step.c_str(), row.victim.c_str(),
                row.milliseconds, row.seen.c_str());
    times[row.mode].push_back(row.milliseconds);
  }
  for (auto& [mode, list] : times) {
    std::sort(list.begin(), list.end());
    std::printf("%s: %zu observations, median %.1f ms, maximum %.1f ms\n", mode.c_str(), list.size(),
                list[list.size() / 2], list.back());
  }
  std::fflush(stdout);
}

}  // namespace nd::crash
