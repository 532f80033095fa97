// SPDX-License-Identifier: Apache-2.0
// The history on real files, also read-only, damaged and foreign ones.
#include "daemon/state/history.h"

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <future>
#include <thread>

#include "daemon/state/history_fixture.h"
#include "daemon/state/sqlite.h"

namespace nd::state {
namespace {

using std::chrono::milliseconds;

constexpr UnixTime kDay = UnixTime{24} * 3600 * 1'000'000;

UnixTime Now() {
  using std::chrono::microseconds;
  return std::chrono::duration_cast<microseconds>(std::chrono::system_clock::now().time_since_epoch())
      .count();
}

TEST_F(HistoryTest, RowsAreReadAsWritten) {
  const auto rows = MakeRows(40);
  const std::vector<AuditRow> audit = {{5, 0, 77, "admin.connection-kill", "c-1", "SUCCESS", "bye"},
                                       {6, 1000, 78, "admin.reload", "", "INVALID_PARAMETER", ""}};
  {
    const auto db = Open();
    ASSERT_TRUE(db->Add(rows, audit).ok());
  }
  const auto db = Open(Mode::kRead);
  const auto page = db->List({});
  ASSERT_TRUE(page.ok());
  ASSERT_EQ(page->rows.size(), 40u);
  for (std::size_t n = 0; n < 40; ++n) EXPECT_EQ(page->rows[n], rows[39 - n]) << n;
  EXPECT_FALSE(page->truncated);
  EXPECT_EQ(db->ListAudit(10).value(), (std::vector{audit[1], audit[0]}));
}

TEST_F(HistoryTest, EveryFilterAloneAndTogether) {
  const auto rows = MakeRows(400);
  const auto db = Open();
  ASSERT_TRUE(db->Add(rows, {}).ok());
  for (int mask = 0; mask < 128; ++mask) {
    HistoryFilter filter;
    if (mask & 1) filter.since = rows[100].ended;
    if (mask & 2) filter.until = rows[300].ended;
    if (mask & 4) filter.application = mask & 64 ? "cmd3" : "My App; DROP TABLE connection; --";
    if (mask & 8) filter.peer = Address::Parse(mask & 64 ? "10.0.0.12:7000" : "fd00::1").value();
    if (mask & 16) filter.adapter = "soft1";
    if (mask & 32) filter.failed_only = true;
    std::vector<HistoryRow> want;
    for (auto row = rows.rbegin(); row != rows.rend(); ++row) {
      const bool failed = row->outcome == "failed" || row->outcome == "broken";
      const std::string shown = row->application.empty() ? row->command : row->application;
      if (filter.since && row->ended < *filter.since) continue;
      if (filter.until && row->ended > *filter.until) continue;
      if (!filter.application.empty() && shown != filter.application) continue;
      if (filter.peer.well_formed() && !row->peer.same_ip(filter.peer)) continue;
      if (!filter.adapter.empty() && row->adapter != filter.adapter) continue;
      if (filter.failed_only && !failed) continue;
      want.push_back(*row);
    }
    const auto page = db->List(filter);
    ASSERT_TRUE(page.ok()) << page.status().ToString();
    EXPECT_EQ(page->rows, want) << mask;
    // Never the whole table, and never a sort.
    const std::string plan = db->Plan(filter).value();
    const bool bare = (mask & ~67) == 0;
    EXPECT_NE(plan.find("USING INDEX connection_"), plan.npos) << mask << plan;
    EXPECT_EQ(plan.find("TEMP B-TREE"), plan.npos) << mask << plan;
    if (!bare) {
      EXPECT_EQ(plan.find("SCAN"), plan.npos) << mask << plan;
    }
    filter.limit = 1;
    const auto first = db->List(filter);
    EXPECT_EQ(first->truncated, want.size() > 1);
    EXPECT_EQ(first->rows.size(), std::min<std::size_t>(1, want.size()));
  }
  HistoryFilter port;
  port.peer = Address::Parse("10.0.0.12:7001").value();
  EXPECT_TRUE(db->List(port)->rows.empty());
}

TEST_F(HistoryTest, OldRowsAreRemovedInSmallSteps) {
  const auto db = Open();
  ASSERT_TRUE(db->Add(MakeRows(3000), {}).ok());
  std::vector<AuditRow> audit(1200);
  for (std::size_t i = 0; i < audit.size(); ++i) audit[i].at = static_cast<UnixTime>(i);
  ASSERT_TRUE(db->Add({}, audit).ok());
  std::size_t steps = 0, removed = 0;
  for (;; ++steps) {
    const auto step = db->Trim(MakeRow(700).ended, 2000);
    ASSERT_TRUE(step.ok()) << step.status().ToString();
    EXPECT_LE(*step, 2000u);
    removed += *step;
    if (*step == 0) break;
  }
  EXPECT_GE(steps, 2u);
  EXPECT_EQ(removed, 1000u + 1200u);
  HistoryFilter all;
  all.limit = 5000;
  const auto page = db->List(all);
  ASSERT_EQ(page->rows.size(), 2000u);
  EXPECT_EQ(page->rows.back().id, "c-1000");
}

TEST_F(HistoryTest, WriterKeepsWithinItsBounds) {
  auto options = MakeOptions();
  options.max_rows = 300;
  options.keep = std::chrono::hours(48);
  History history(options);
  for (int n = 0; n < 50; ++n) history.Add(MakeRow(n, Now() - 3 * kDay));
  for (int n = 0; n < 2000; ++n) history.Add(MakeRow(n, Now()));
  history.Flush();
  HistoryFilter all;
  all.limit = 5000;
  Await([&] { return history.List(all)->rows.size() == 300; });
  EXPECT_EQ(history.state().written, 2050u);
  EXPECT_EQ(history.List(all)->rows.front().id, "c-1999");
}

TEST_F(HistoryTest, ListIncludesRowsAddedBefore) {
  auto options = MakeOptions();
  options.gather = std::chrono::minutes(10);
  History history(options);
  for (int n = 0; n < 3; ++n) {
    history.Add(MakeRow(n));
    EXPECT_EQ(history.List({})->rows.size(), static_cast<std::size_t>(n) + 1);
  }
}

TEST_F(HistoryTest, RowsOfManyConnectionsGatherAndAreThenAllWritten) {
  auto options = MakeOptions();
  options.gather = std::chrono::minutes(10);
  History history(options);
  for (int n = 0; n < 2000; ++n) history.Add(MakeRow(n));
  std::this_thread::sleep_for(milliseconds(50));
  EXPECT_EQ(history.state().written, 0u) << "peers of the ended connections need the processors";
  history.Flush();
  EXPECT_EQ(history.state().written, 2000u);
}

TEST_F(HistoryTest, ThreeQuartersOfAFullQueueAreWrittenAtOnce) {
  auto options = MakeOptions();
  options.gather = std::chrono::minutes(10);
  options.max_waiting = 2000;
  History history(options);
  for (int n = 0; n < 1500; ++n) history.Add(MakeRow(n));
  Await([&] { return history.state().written == 1500; });
}

TEST_F(HistoryTest, RestartKeepsTheRows) {
  for (int life = 0; life < 3; ++life) {
    History history(MakeOptions());
    history.AwaitOpen(milliseconds(10'000));
    EXPECT_TRUE(history.state().writing);
    for (int n = 0; n < 10; ++n) history.Add(MakeRow(life * 10 + n));
  }  // An orderly end writes what waits.
  EXPECT_EQ(Open(Mode::kRead)->List({})->rows.size(), 30u);
  EXPECT_TRUE(Told().empty());
}

TEST_F(HistoryTest, FullQueueDropsAndCounts) {
  auto options = MakeOptions();
  options.file = directory_ + "/not/there/history.db";
  options.max_waiting = 5;
  History history(options);
  history.AwaitOpen(milliseconds(10'000));
  for (int n = 0; n < 12; ++n) history.Add(MakeRow(n));
  const HistoryState state = history.state();
  EXPECT_FALSE(state.writing);
  EXPECT_EQ(state.waiting, 5u);
  EXPECT_EQ(state.dropped, 7u);
  EXPECT_NE(state.problem.find("No such file"), std::string::npos) << state.problem;
  EXPECT_FALSE(history.List({}).ok());
  // Rows wait until the file can be written again.
  std::filesystem::create_directories(directory_ + "/not/there");
  Await([&] { return history.state().writing; });
  history.Flush();
  EXPECT_EQ(history.List({})->rows.size(), 5u);
  const auto told = Told();
  ASSERT_EQ(told.size(), 2u) << "one warning, one end of it";
  EXPECT_EQ(told[0][0], '-');
  EXPECT_EQ(told[1][0], '+');
}

// Connection rows that fill their queue displace no audit row, and an action without a place for its audit
// row is refused.
TEST_F(HistoryTest, AuditIsNeverDropped) {
  auto options = MakeOptions();
  options.file = directory_ + "/not/there/history.db";
  options.max_waiting = 5;
  options.max_waiting_audit = 3;
  History history(options);
  history.AwaitOpen(milliseconds(10'000));
  for (int n = 0; n < 12; ++n) history.Add(MakeRow(n));
  for (int n = 0; n < 2; ++n) {
    ASSERT_TRUE(history.ReserveAudit().ok());
    history.AddAudit({n, 0, 1, "admin.drain", "", "SUCCESS", ""});
  }
  ASSERT_TRUE(history.ReserveAudit().ok()) << "the last place, for a change that takes its time";
  const Status refused = history.ReserveAudit();
  EXPECT_EQ(refused.code(), StatusCode::kInsufficientResources);
  EXPECT_NE(refused.message().find("No such file"), std::string::npos) << refused.message();
  EXPECT_NE(refused.message().find("[history]"), std::string::npos) << refused.message();
  history.AddAudit({2, 0, 1, "admin.drain", "", "SUCCESS", ""});
  HistoryState state = history.state();
  EXPECT_EQ(state.waiting, 5u + 3u);
  EXPECT_EQ(state.dropped, 7u) << "connections only";
  EXPECT_EQ(state.audit_refused, 1u);
  std::filesystem::create_directories(directory_ + "/not/there");
  Await([&] { return history.state().writing; });
  history.Flush();
  EXPECT_TRUE(history.ReserveAudit().ok());
  EXPECT_EQ(HistoryDb::Open(options.file, Mode::kRead).value()->ListAudit(10)->size(), 3u);
}

TEST_F(HistoryTest, AuditRowsThatCannotBeWrittenGoToTheLog) {
  auto options = MakeOptions();
  options.file = directory_ + "/not/there/history.db";
  {
    History history(options);
    history.AwaitOpen(milliseconds(10'000));
    ASSERT_TRUE(history.ReserveAudit().ok());
    history.AddAudit({1, 7, 77, "admin.session-kill", "s-1", "SUCCESS", "gone"});
  }
  const auto told = Told();
  ASSERT_EQ(told.size(), 2u);
  for (const char* part : {"admin.session-kill", "s-1", "uid 7", "SUCCESS", "gone"}) {
    EXPECT_NE(told[1].find(part), std::string::npos) << told[1];
  }
}

// As on a full disk, where a file can be opened and not written.
TEST_F(HistoryTest, EndsAlthoughTheFileCannotBeWritten) {
  ASSERT_NE(Open(), nullptr);
  Database other = Database::Open(file_, SQLITE_OPEN_READWRITE).value();
  ASSERT_TRUE(other.Run("BEGIN IMMEDIATE").ok());
  auto options = MakeOptions();
  options.retry = std::chrono::hours(1);
  {
    History history(options);
    ASSERT_TRUE(history.ReserveAudit().ok());
    history.AddAudit({1, 7, 77, "admin.session-kill", "s-1", "SUCCESS", "gone"});
    Await([&] { return !history.state().problem.empty(); });
  }
  const auto told = Told();
  ASSERT_EQ(told.size(), 2u);
  EXPECT_NE(told[0].find("cannot be written"), std::string::npos) << told[0];
  EXPECT_NE(told[1].find("not written to the history: admin.session-kill"), std::string::npos) << told[1];
}

// The writer answers while it waits for rows and for the disk.
TEST_F(HistoryTest, WriterAnswersWhileItWaits) {
  for (const bool broken : {false, true}) {
    auto options = MakeOptions();
    options.retry = std::chrono::hours(1);
    if (broken) options.file = directory_ + "/not/there/history.db";
    History history(options);
    history.AwaitOpen(milliseconds(10'000));
    std::promise<void> answered;
    history.Post([&] { answered.set_value(); });
    EXPECT_EQ(answered.get_future().wait_for(std::chrono::seconds(10)), std::future_status::ready) << broken;
  }
}

TEST_F(HistoryTest, DamagedFileIsSetAside) {
  for (const bool whole : {true, false}) {
    std::filesystem::remove(file_);
    {
      History history(MakeOptions());
      for (int n = 0; n < 200; ++n) history.Add(MakeRow(n));
    }
    {
      // Damages the whole file, or everything after the first page, which is noticed later.
      std::fstream file(file_, std::ios::in | std::ios::out | std::ios::binary);
      const auto size = std::filesystem::file_size(file_);
      file.seekp(whole ? 0 : 4096);
      const std::string noise(size - (whole ? 0 : 4096), '\x5a');
      file.write(noise.data(), static_cast<std::streamsize>(noise.size()));
    }
    const std::size_t before = Told().size();
    History history(MakeOptions());
    history.Add(MakeRow(7));
    Await([&] { return history.state().written == 1; });
    EXPECT_EQ(history.List({})->rows, std::vector{MakeRow(7)});
    ASSERT_EQ(Told().size(), before + 1);
    EXPECT_NE(Told().back().find(".bad-"), std::string::npos);
    std::size_t aside = 0;
    for (const std::string& name : Files()) aside += name.starts_with("history.db.bad-");
    EXPECT_EQ(aside, whole ? 1u : 2u) << "each of them is kept";
  }
}

TEST_F(HistoryTest, DamageFoundByAReaderIsSetAsideToo) {
  History history(MakeOptions());
  for (int n = 0; n < 200; ++n) history.Add(MakeRow(n));
  history.Flush();
  // The open file and its log are overwritten.
  for (const char* suffix : {"", "-wal"}) {
    std::fstream file(file_ + suffix, std::ios::in | std::ios::out | std::ios::binary);
    file << std::string(64 * 1024, '\x5a');
  }
  const auto page = history.List({});
  if (page.ok()) GTEST_SKIP() << "SKIPPED LOUDLY: this SQLite answered from memory";
  Await([&] { return Told().size() == 1 && history.state().problem.empty(); });
  history.Add(MakeRow(9));
  Await([&] {
    const auto again = history.List({});
    return again.ok() && !again->rows.empty();
  });
}

TEST_F(HistoryTest, FileOfALaterVersionIsNotTouched) {
  { Open(); }
  {
    auto db = Database::Open(file_, SQLITE_OPEN_READWRITE);
    ASSERT_TRUE(db->Run("PRAGMA user_version = 99").ok());
  }
  History history(MakeOptions());
  history.AwaitOpen(milliseconds(10'000));
  EXPECT_NE(history.state().problem.find("version 99"), std::string::npos);
  for (const std::string& name : Files()) EXPECT_EQ(name.find(".bad-"), std::string::npos);
}

TEST_F(HistoryTest, EmptyFileIsNew) {
  std::ofstream(file_).close();
  EXPECT_NE(Open(), nullptr);
}

TEST_F(HistoryTest, TenThousandRowsAreListed) {
  const auto db = Open();
  for (int batch = 0; batch < 10; ++batch) {
    std::vector<HistoryRow> rows;
    for (int n = 0; n < 1000; ++n) rows.push_back(MakeRow(batch * 1000 + n));
    ASSERT_TRUE(db->Add(rows, {}).ok());
  }
  const auto measure = [&](const char* what, const HistoryFilter& filter, std::size_t want) {
    const auto began = std::chrono::steady_clock::now();
    const auto page = Open(Mode::kRead)->List(filter);
    const auto took = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - began);
    EXPECT_EQ(page->rows.size(), want);
    std::printf("%s: %zu of 10000 rows in %.2f ms\n", what, want, took.count());
  };
  HistoryFilter filter;
  measure("the newest", filter, 1000);
  filter.limit = 10'000;
  measure("all", filter, 10'000);
  filter.limit = 100;
  filter.peer = Address::Parse("10.0.0.12").value();
  filter.failed_only = true;
  measure("failures of one peer", filter, 100);
}

}  // namespace
}  // namespace nd::state
