// SPDX-License-Identifier: Apache-2.0
// The end of the broker without memory, the fields of the journal, and values from /proc.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cinttypes>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <new>
#include <thread>

#include "base/unique_fd.h"
#include "daemon/ops/journal_log.h"
#include "daemon/ops/logging.h"
#include "daemon/ops/process.h"

namespace nd::ops {
namespace {

// After the failure no code of the process runs any more, in any thread.
TEST(MemoryDeathTest, RefusedAllocationEndsTheProgramWithAMessage) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the sanitizer's allocator has its own end";
#endif
  const auto ask = [] {
    EndWhenMemoryRunsOut();
    std::thread([] {
      try {
        volatile std::size_t size = std::numeric_limits<std::size_t>::max() / 4;
        ::operator delete(::operator new(size));
      } catch (...) {  // As a library does.
      }
    }).join();
    std::_Exit(0);
  };
  EXPECT_EXIT(ask(), ::testing::KilledBySignal(SIGABRT), "out of memory: .* to be started again");
}

TEST(Journal, FieldsNameTheSubjectOfALine) {
  EXPECT_EQ(JournalFields(4, "broken", {"connection.failed", "c-12"}),
            (std::vector<std::string>{"MESSAGE=broken", "PRIORITY=4", "SYSLOG_IDENTIFIER=ndbrokerd",
                                      "NDB_EVENT=connection.failed", "NDB_CONNECTION=c-12"}));
  EXPECT_EQ(JournalFields(6, "m", {{}, "s-3"}).back(), "NDB_SESSION=s-3");
  EXPECT_EQ(JournalFields(6, "m", {{}, "l-3"}).back(), "NDB_LISTENER=l-3");
  EXPECT_EQ(JournalFields(6, "m", {{}, "e-3"}).back(), "NDB_ENDPOINT=e-3");
  EXPECT_EQ(JournalFields(6, "m", {{}, "soft0"}).back(), "NDB_OBJECT=soft0");
  EXPECT_EQ(JournalFields(6, "m", {}).size(), 3u);
}

TEST(Journal, IsUsedOnlyWhenSystemdNamesThisStream) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const UniqueFd read(ends[0]), write(ends[1]);
  struct stat st;
  ASSERT_EQ(::fstat(write.get(), &st), 0);
  const std::string right = std::to_string(st.st_dev) + ":" + std::to_string(st.st_ino);
  EXPECT_TRUE(IsJournalStream(right.c_str(), write.get()));
  EXPECT_FALSE(IsJournalStream((right + "0").c_str(), write.get()));
  EXPECT_FALSE(IsJournalStream((right + ":1").c_str(), write.get()));
  for (const char* bad : {"", ":", "x:y", "12"}) EXPECT_FALSE(IsJournalStream(bad, write.get())) << bad;
  EXPECT_FALSE(IsJournalStream(nullptr, write.get()));
  EXPECT_FALSE(IsJournalStream(right.c_str(), -1));
}

TEST(Process, CountsItsDescriptors) {
  const std::uint32_t before = OpenFds();
  UniqueFd one(::dup(0)), two(::dup(0));
  EXPECT_EQ(OpenFds(), before + 2);
}

TEST(Process, TheTableOfDescriptorsIsLargeFromTheStart) {
  const std::uint64_t limit = RaiseFdLimit();
  std::ifstream status("/proc/self/status");
  std::uint64_t size = 0;
  for (std::string line; std::getline(status, line);) std::sscanf(line.c_str(), "FDSize: %" SCNu64, &size);
  EXPECT_GE(size, std::min<std::uint64_t>(limit, 65536));
}

TEST(Process, ReadsItsOwnNameAndAge) {
  EXPECT_GT(ResidentBytes(), 0u);
  EXPECT_EQ(RaiseFdLimit(), FdLimit());
  EXPECT_EQ(CommandOf(static_cast<std::uint32_t>(::getpid())), "ops_test");
  EXPECT_EQ(CommandOf(0), "");
  EXPECT_GE(BornOf(static_cast<std::uint32_t>(::getpid())), BornOf(static_cast<std::uint32_t>(::getppid())));
  EXPECT_NE(BornOf(static_cast<std::uint32_t>(::getppid())), 0u);
  EXPECT_EQ(BornOf(0), 0u);
  EXPECT_NE(RandomNumber(), RandomNumber());
}

}  // namespace
}  // namespace nd::ops
