// SPDX-License-Identifier: Apache-2.0
// The key's file with permissions and links of Linux.
#include <sys/stat.h>

#include <filesystem>

#include "daemon/state/reattach_key_fixture.h"

namespace nd::state {
namespace {

TEST_F(ReattachKeyTest, IsPrivate) {
  static_cast<void>(Proof());
  struct stat st;
  ASSERT_EQ(::stat(path().c_str(), &st), 0);
  EXPECT_EQ(st.st_mode & 07777, 0600u);
}

TEST_F(ReattachKeyTest, FileOfOthersIsReportedAndNotUsed) {
  const provider::Bytes proof = Proof();
  ::chmod(path().c_str(), 0644);
  ExpectAnotherKey(proof, "only uid");
  std::filesystem::remove(path());
  std::filesystem::create_symlink("/dev/zero", path());
  ExpectAnotherKey(proof, "cannot open");
}

}  // namespace
}  // namespace nd::state
