// SPDX-License-Identifier: Apache-2.0
// For tests: rows, and histories in a directory.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "daemon/state/history.h"
#include "daemon/state/history_db.h"
#include "tests/testing/process.h"

namespace nd::state {

// The n-th connection; an hour apart, the newest last, among five applications, seven peers and two adapters.
inline HistoryRow MakeRow(int n, UnixTime first = UnixTime{1'800'000'000} * 1'000'000) {
  HistoryRow row;
  row.id = "c-" + std::to_string(n);
  row.started = first + UnixTime{n} * 1000;
  row.established = row.started + 5;
  row.ended = row.started + 100;
  row.local = Address::Parse("10.0.0.1").value().WithPort(static_cast<std::uint16_t>(50'000 + n % 1000));
  row.peer = n % 7 == 0 ? Address::Parse("[fd00::1]:7000").value()
                        : Address::Parse("10.0.0." + std::to_string(10 + n % 7) + ":7000").value();
  row.passive = n % 2 == 0;
  row.pid = 100;
  row.uid = 4'294'967'294u;
  row.command = "cmd" + std::to_string(n % 5);
  if (n % 5 == 0) row.application = "My App; DROP TABLE connection; --";
  row.unit = "x.service";
  row.container = "abc";
  row.cgroup = "/system.slice/x.service";
  row.adapter = n % 2 == 0 ? "soft0" : "soft1";
  row.transport = "local";
  row.outcome = n % 4 == 0 ? "failed" : n % 4 == 1 ? "broken" : "closed";
  if (row.outcome == "failed") row.established.reset();
  row.status = "CONNECTION_REFUSED";
  row.detail = "peer rejected";
  row.reason = "It said \"no\"\n\xc3\xa4.";
  row.tx_bytes = ~std::uint64_t{0};
  row.rx_bytes = std::uint64_t{1} << 63;
  row.wakeups = 7;
  row.phases = {{"queue", 0.000012345}, {"connect", 1.5}};
  return row;
}

inline std::vector<HistoryRow> MakeRows(int count) {
  std::vector<HistoryRow> rows;
  for (int n = 0; n < count; ++n) rows.push_back(MakeRow(n));
  return rows;
}

class HistoryTest : public ::testing::Test {
 protected:
  using Mode = HistoryDb::Mode;

  ~HistoryTest() override { testing::RemoveTree(directory_); }
  std::unique_ptr<HistoryDb> Open(Mode mode = Mode::kWrite) {
    auto db = HistoryDb::Open(file_, mode);
    EXPECT_TRUE(db.ok()) << db.status().ToString();
    return db.ok() ? std::move(db.value()) : nullptr;
  }
  History::Options MakeOptions() {
    History::Options options;
    options.file = file_;
    options.keep = std::chrono::hours(24 * 365 * 100);
    options.gather = std::chrono::milliseconds(1);
    options.retry = std::chrono::milliseconds(1);
    options.tell = [this](bool good, const std::string& line) {
      std::lock_guard lock(mutex_);
      told_.push_back((good ? "+" : "-") + line);
    };
    return options;
  }
  std::vector<std::string> Told() {
    std::lock_guard lock(mutex_);
    return told_;
  }
  // Without a time-out of its own; ctest ends a test that hangs.
  template <typename Condition>
  void Await(Condition condition) {
    while (!condition()) std::this_thread::yield();
  }
  std::vector<std::string> Files() {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(directory_)) {
      names.push_back(entry.path().filename().string());
    }
    std::sort(names.begin(), names.end());
    return names;
  }
  const std::string directory_ = testing::MakeTempDirectory("ndhistory-"), file_ = directory_ + "/history.db";

 private:
  std::mutex mutex_;
  std::vector<std::string> told_;
};

}  // namespace nd::state
