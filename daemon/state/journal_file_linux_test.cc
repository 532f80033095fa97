// SPDX-License-Identifier: Apache-2.0
// The journal's file among links, other kinds of files and other users.
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "daemon/state/journal_file_fixture.h"

namespace nd::state {
namespace {

TEST_F(JournalFileTest, IsPrivate) {
  Open()->Taken(kStart, MakeLease("10.0.0.1:1", 1));
  struct stat st;
  ASSERT_EQ(::stat(Path().c_str(), &st), 0);
  EXPECT_EQ(st.st_mode & 0777, 0600u);
}

TEST_F(JournalFileTest, ForeignFileIsNotTouchedAndServiceContinues) {
  const std::string target = Path("target");
  std::ofstream(target) << "precious";
  std::filesystem::create_symlink(target, Path());
  auto journal = Open();
  EXPECT_FALSE(journal->state().journaled);
  EXPECT_NE(journal->state().problem.find("symbolic link"), std::string::npos);
  journal->Taken(kStart, MakeLease("10.0.0.1:1", 1));
  journal->Retry(*journal->retry_at());
  std::string text;
  std::ifstream(target) >> text;
  EXPECT_EQ(text, "precious");
  std::filesystem::remove(Path());
  std::filesystem::create_directory(Path());
  journal->Retry(*journal->retry_at());
  EXPECT_NE(journal->state().problem.find("no ordinary file"), std::string::npos);
  std::filesystem::remove(Path());
  ASSERT_EQ(::mkfifo(Path().c_str(), 0600), 0);
  journal->Retry(*journal->retry_at());
  EXPECT_FALSE(journal->state().journaled);
  std::filesystem::remove(Path());
  journal->Retry(*journal->retry_at());
  EXPECT_TRUE(journal->state().journaled);
  Open();
  EXPECT_EQ(leases_.size(), 1u);
}

TEST_F(JournalFileTest, FileOfAnotherUserIsNotTouched) {
  if (::geteuid() != 0) GTEST_SKIP() << "SKIPPED LOUDLY: needs root to make a file of another user";
  std::ofstream(Path()) << "theirs";
  ASSERT_EQ(::chown(Path().c_str(), 65534, 65534), 0);
  const auto journal = Open();
  EXPECT_FALSE(journal->state().journaled);
  EXPECT_NE(journal->state().problem.find("belongs to uid 65534"), std::string::npos);
  EXPECT_EQ(std::filesystem::file_size(Path()), 6u);
}

}  // namespace
}  // namespace nd::state
