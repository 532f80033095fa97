// SPDX-License-Identifier: Apache-2.0
// The history on a disk that fails: every access of SQLite to its files fails, once or from then on for ever,
// with an error of the device or as a full disk. Afterwards the file is whole, and rows were added together
// or not at all.
#include <gtest/gtest.h>
#include <sqlite3.h>

#include <cstdio>
#include <cstring>
#include <filesystem>
#include <string>

#include "daemon/state/history_db.h"
#include "daemon/state/sqlite.h"
#include "tests/testing/process.h"

namespace nd::state {
namespace {

using Mode = HistoryDb::Mode;

// Wraps the files of SQLite's own layer and makes calls fail. SQLite's interface takes functions without
// state, so the state is global.
struct Disk {
  int calls = 0, fail_at = 0;  // 0: nothing fails.
  bool for_ever = false, full = false;
  bool Fails() {
    ++calls;
    return fail_at != 0 && (for_ever ? calls >= fail_at : calls == fail_at);
  }
} disk;

struct File {
  sqlite3_file base;
  sqlite3_file* real() { return reinterpret_cast<sqlite3_file*>(this + 1); }
  static File* Of(sqlite3_file* file) { return reinterpret_cast<File*>(file); }
};
sqlite3_file* Real(sqlite3_file* file) {
  return File::Of(file)->real();
}

// Calls METHOD of the real file unless it fails now.
template <auto kMethod, int kError, typename... Arguments>
int Pass(sqlite3_file* file, Arguments... arguments) {
  if (disk.Fails()) return disk.full ? SQLITE_FULL : kError;
  return (Real(file)->pMethods->*kMethod)(Real(file), arguments...);
}
// For calls that cannot fail or do not access the disk.
template <auto kMethod, typename... Arguments>
int Only(sqlite3_file* file, Arguments... arguments) {
  return (Real(file)->pMethods->*kMethod)(Real(file), arguments...);
}
using M = sqlite3_io_methods;

const M kMethods = {
    .iVersion = 2,
    .xClose = Only<&M::xClose>,
    .xRead = Pass<&M::xRead, SQLITE_IOERR_READ, void*, int, sqlite3_int64>,
    .xWrite = Pass<&M::xWrite, SQLITE_IOERR_WRITE, const void*, int, sqlite3_int64>,
    .xTruncate = Pass<&M::xTruncate, SQLITE_IOERR_TRUNCATE, sqlite3_int64>,
    // Does not wait for the disk, because the test loses no power.
    .xSync = [](sqlite3_file*, int) { return disk.Fails() ? SQLITE_IOERR_FSYNC : SQLITE_OK; },
    .xFileSize = Pass<&M::xFileSize, SQLITE_IOERR_FSTAT, sqlite3_int64*>,
    .xLock = Pass<&M::xLock, SQLITE_IOERR_LOCK, int>,
    .xUnlock = Only<&M::xUnlock, int>,
    .xCheckReservedLock = Only<&M::xCheckReservedLock, int*>,
    .xFileControl = Only<&M::xFileControl, int, void*>,
    .xSectorSize = Only<&M::xSectorSize>,
    .xDeviceCharacteristics = Only<&M::xDeviceCharacteristics>,
    .xShmMap = Pass<&M::xShmMap, SQLITE_IOERR_SHMMAP, int, int, int, void volatile**>,
    .xShmLock = Only<&M::xShmLock, int, int, int>,
    .xShmBarrier = [](sqlite3_file* file) { Real(file)->pMethods->xShmBarrier(Real(file)); },
    .xShmUnmap = Only<&M::xShmUnmap, int>,
    .xFetch = nullptr,
    .xUnfetch = nullptr,
};

sqlite3_vfs* real_vfs = nullptr;

int OpenFile(sqlite3_vfs*, const char* name, sqlite3_file* file, int flags, int* out_flags) {
  file->pMethods = nullptr;
  if (disk.Fails()) return disk.full ? SQLITE_FULL : SQLITE_CANTOPEN;
  const int code = real_vfs->xOpen(real_vfs, name, Real(file), flags, out_flags);
  if (Real(file)->pMethods != nullptr) file->pMethods = &kMethods;
  return code;
}

int DeleteFile(sqlite3_vfs*, const char* name, int sync) {
  if (disk.Fails()) return SQLITE_IOERR_DELETE;
  return real_vfs->xDelete(real_vfs, name, sync);
}

class HistoryDiskTest : public ::testing::TestWithParam<std::tuple<bool, bool>> {
 protected:
  static void SetUpTestSuite() {
    real_vfs = sqlite3_vfs_find(nullptr);
    static sqlite3_vfs failing = *real_vfs;
    failing.zName = "failing";
    failing.szOsFile = static_cast<int>(sizeof(File)) + real_vfs->szOsFile;
    failing.xOpen = OpenFile;
    failing.xDelete = DeleteFile;
    ASSERT_EQ(sqlite3_vfs_register(&failing, 1), SQLITE_OK);
  }
  static void TearDownTestSuite() { sqlite3_vfs_register(real_vfs, 1); }
  void SetUp() override { disk = {}; }
  void TearDown() override {
    disk = {};
    testing::RemoveTree(directory_);
  }
  static std::vector<HistoryRow> Rows(int first, int count) {
    std::vector<HistoryRow> rows(static_cast<std::size_t>(count));
    for (int i = 0; i < count; ++i) {
      HistoryRow& row = rows[static_cast<std::size_t>(i)];
      row.id = "c-" + std::to_string(first + i);
      row.started = row.ended = 1'000'000 + first + i;
      row.outcome = "closed";
      row.reason = std::string(300, 'x');
    }
    return rows;
  }
  // A file with kOld rows on a disk that works.
  void MakeFile() {
    for (const auto& entry : std::filesystem::directory_iterator(directory_)) std::filesystem::remove(entry);
    Result<std::unique_ptr<HistoryDb>> db = HistoryDb::Open(file_, Mode::kWrite);
    ASSERT_TRUE(db.ok()) << db.status().ToString();
    ASSERT_TRUE((*db)->Add(Rows(0, kOld), {}).ok());
  }
  static constexpr int kOld = 40, kNew = 25, kKept = 30;

  const std::string directory_ = testing::MakeTempDirectory("nddisk-"), file_ = directory_ + "/history.db";
};

TEST_P(HistoryDiskTest, RowsAreAddedTogetherOrNotAtAll) {
  const auto [full, for_ever] = GetParam();
  int failed = 0;
  for (int n = 1;; ++n) {
    SCOPED_TRACE("access " + std::to_string(n));
    ASSERT_NO_FATAL_FAILURE(MakeFile());
    disk = {.fail_at = n, .for_ever = for_ever, .full = full};
    bool added = false, trimmed = false;
    {
      Result<std::unique_ptr<HistoryDb>> db = HistoryDb::Open(file_, Mode::kWrite);
      Status status = db.status();
      if (status.ok()) status = (*db)->Add(Rows(kOld, kNew), {});
      added = status.ok();
      if (status.ok()) {
        const Result<std::size_t> gone = (*db)->Trim(0, kKept);
        status = gone.status();
        trimmed = gone.ok() && *gone == kOld + kNew - kKept;
      }
      if (!status.ok()) {
        ++failed;
        EXPECT_FALSE(IsCorrupt(status)) << "a whole file would be set aside: " << status.ToString();
        EXPECT_NE(status.message(), "");
      }
    }
    const bool reached = disk.calls >= n;
    disk = {};
    Result<std::unique_ptr<HistoryDb>> db = HistoryDb::Open(file_, Mode::kWrite);
    ASSERT_TRUE(db.ok()) << db.status().ToString();
    const Result<HistoryPage> page = (*db)->List({});
    ASSERT_TRUE(page.ok()) << page.status().ToString();
    const std::size_t rows = page->rows.size();
    if (trimmed) {
      EXPECT_EQ(rows, std::size_t{kKept});
    } else if (added) {
      EXPECT_TRUE(rows == kOld + kNew || rows == kKept) << rows;
    } else {
      // A commit whose last step failed may be in the file.
      EXPECT_TRUE(rows == kOld || rows == kOld + kNew) << rows;
    }
    Database plain = std::move(Database::Open(file_, SQLITE_OPEN_READWRITE).value());
    Result<Statement> check = plain.Prepare("PRAGMA integrity_check");
    ASSERT_TRUE(check.ok() && check->Step().ok());
    EXPECT_EQ(check->Text(0), "ok");
    if (HasFailure() || !reached) break;
  }
  EXPECT_GE(failed, 10) << "the failures were not reached";
  std::printf("%d failures were reported\n", failed);
}

// A new file: the next attempt makes what is missing.
TEST_P(HistoryDiskTest, FileThatCouldNotBeMadeIsMadeLater) {
  const auto [full, for_ever] = GetParam();
  for (int n = 1;; ++n) {
    SCOPED_TRACE("access " + std::to_string(n));
    for (const auto& entry : std::filesystem::directory_iterator(directory_)) std::filesystem::remove(entry);
    disk = {.fail_at = n, .for_ever = for_ever, .full = full};
    (void)HistoryDb::Open(file_, Mode::kWrite);
    const bool reached = disk.calls >= n;
    disk = {};
    Result<std::unique_ptr<HistoryDb>> db = HistoryDb::Open(file_, Mode::kWrite);
    ASSERT_TRUE(db.ok()) << db.status().ToString();
    ASSERT_TRUE((*db)->Add(Rows(0, 1), {}).ok());
    EXPECT_EQ((*db)->List({})->rows.size(), 1u);
    if (HasFailure() || !reached) break;
  }
}

INSTANTIATE_TEST_SUITE_P(Disk, HistoryDiskTest, ::testing::Combine(::testing::Bool(), ::testing::Bool()),
                         [](const auto& test) {
                           return std::string(std::get<0>(test.param) ? "Full" : "Error") +
                                  (std::get<1>(test.param) ? "ForEver" : "Once");
                         });

}  // namespace
}  // namespace nd::state
