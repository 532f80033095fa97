// SPDX-License-Identifier: Apache-2.0
// The history's file with permissions and links of Linux, and on a full disk.
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>

#include "daemon/state/history_fixture.h"

namespace nd::state {
namespace {

using std::chrono::milliseconds;

TEST_F(HistoryTest, FileIsPrivate) {
  ASSERT_NE(Open(), nullptr);
  struct stat st;
  ASSERT_EQ(::stat(file_.c_str(), &st), 0);
  EXPECT_EQ(st.st_mode & 0777, 0600u);
}

TEST_F(HistoryTest, LinkIsNotFollowed) {
  std::ofstream(directory_ + "/precious") << "precious";
  std::filesystem::create_symlink("precious", file_);
  EXPECT_FALSE(HistoryDb::Open(file_, Mode::kWrite).ok());
  EXPECT_EQ(std::filesystem::file_size(directory_ + "/precious"), 8u);
}

// A small file system in a mount namespace of the test's own process.
TEST_F(HistoryTest, FullDiskBlocksNoCaller) {
  if (::geteuid() != 0) GTEST_SKIP() << "SKIPPED LOUDLY: needs root to mount a small file system";
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const auto fail = [](const char* what) {
      std::fprintf(stderr, "full disk: %s\n", what);
      ::_exit(1);
    };
    if (::unshare(CLONE_NEWNS) != 0 || ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        ::mount("none", directory_.c_str(), "tmpfs", 0, "size=300k") != 0) {
      ::_exit(77);
    }
    auto options = MakeOptions();
    options.max_waiting = 10'000;
    History history(options);
    int n = 0;
    const auto problem = [&] { return history.state().problem; };
    while (problem().empty() && n < 100'000) {
      history.Add(MakeRow(n++));
      if (n % 50 == 0) history.Flush();
    }
    if (problem().find("full") == std::string::npos) fail("expected it to be full");
    const auto began = std::chrono::steady_clock::now();
    for (int i = 0; i < 1000; ++i) history.Add(MakeRow(n++));
    if (std::chrono::steady_clock::now() - began > std::chrono::seconds(5))
      fail("adding waited for the disk");
    Await([&] { return !Told().empty(); });
    const auto later = std::chrono::steady_clock::now() + milliseconds(50);  // Dozens of tries.
    Await([&] { return std::chrono::steady_clock::now() > later; });
    if (Told().size() != 1) fail("expected one warning");
    if (!history.List({}).ok()) fail("what is there can still be read");
    if (::mount("none", directory_.c_str(), "tmpfs", MS_REMOUNT, "size=64m") != 0) fail("remount");
    Await([&] { return history.state().writing && history.state().waiting == 0; });
    history.Flush();
    HistoryFilter all;
    all.limit = 200'000;
    if (history.List(all)->rows.size() != static_cast<std::size_t>(n)) fail("rows were lost");
    ::_exit(0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 77) GTEST_SKIP() << "SKIPPED LOUDLY: may not mount here";
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

}  // namespace
}  // namespace nd::state
