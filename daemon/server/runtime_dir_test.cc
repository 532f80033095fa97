// SPDX-License-Identifier: Apache-2.0
// The directories of the broker and of its clients: owner and permissions.
#include "daemon/server/runtime_dir.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <string>

namespace nd::service {
namespace {

class RuntimeDirectory : public ::testing::Test {
 protected:
  RuntimeDirectory() {
    char name[] = "/tmp/nd-runtime-XXXXXX";
    root_ = ::mkdtemp(name);
    client_ = root_ + "/client";
  }
  ~RuntimeDirectory() override { std::filesystem::remove_all(root_); }
  mode_t ModeOf(const std::string& path) {
    struct stat st {};
    EXPECT_EQ(::stat(path.c_str(), &st), 0) << path;
    return st.st_mode & 07777;
  }
  std::string root_, client_;
};

TEST_F(RuntimeDirectory, EveryClientMaySearchTheClientDirectoryRegardlessOfTheUmask) {
  const mode_t before = ::umask(0077);
  EXPECT_TRUE(MakeClientDirectory(root_).ok());
  ::umask(before);
  EXPECT_EQ(ModeOf(client_), 0755u);
  EXPECT_EQ(ModeOf(root_), 0700u) << "the directory of the administrator's sockets stays closed";
}

TEST_F(RuntimeDirectory, ModeSetByTheAdministratorStays) {
  ASSERT_TRUE(MakeClientDirectory(root_).ok());
  ASSERT_EQ(::chmod(client_.c_str(), 0750), 0);
  EXPECT_TRUE(MakeClientDirectory(root_).ok());
  EXPECT_EQ(ModeOf(client_), 0750u);
}

TEST_F(RuntimeDirectory, ClientDirectoryWritableByOthersIsRefused) {
  ASSERT_TRUE(MakeClientDirectory(root_).ok());
  ASSERT_EQ(::chmod(client_.c_str(), 0777), 0);
  const Status refused = MakeClientDirectory(root_);
  EXPECT_EQ(refused.code(), StatusCode::kAccessDenied);
  EXPECT_NE(refused.message().find(client_), std::string::npos) << refused.message();
}

TEST_F(RuntimeDirectory, LinkIsNotAClientDirectory) {
  ASSERT_EQ(::symlink("/tmp", client_.c_str()), 0);
  EXPECT_FALSE(MakeClientDirectory(root_).ok());
}

}  // namespace
}  // namespace nd::service
