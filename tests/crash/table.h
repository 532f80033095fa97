// SPDX-License-Identifier: Apache-2.0
// The table of the statuses and times that the survivors saw, printed at the end. One thread.
#pragma once

#include <string>
#include <vector>

namespace nd::crash {

struct Row {
  std::string mode, step, victim;
  std::string seen;  // "A: Connect = CONNECTION_REFUSED (no listener)"
  double milliseconds = 0;
};

class Table {
 public:
  static Table& Get();
  void Add(Row row) { rows_.push_back(std::move(row)); }
  // Prints the table with median and maximum of each mode; prints nothing when it is empty.
  void Print() const;

 private:
  std::vector<Row> rows_;
};

}  // namespace nd::crash
