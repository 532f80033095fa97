// SPDX-License-Identifier: Apache-2.0
// What the survivors saw, and after how long: the table that is printed at the end. One thread.
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
  // As text, with median and maximum of each mode below; nothing when it is empty.
  void Print() const;

 private:
  std::vector<Row> rows_;
};

}  // namespace nd::crash
