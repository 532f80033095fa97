// SPDX-License-Identifier: Apache-2.0
#include "base/os/access_win.h"

#include <gtest/gtest.h>
#include <sddl.h>

#include <string>

#include "base/os/file.h"
#include "base/os/self.h"

namespace nd::os {
namespace {

std::wstring TextOf(NewAccess& access) {
  LPWSTR text = nullptr;
  if (::ConvertSecurityDescriptorToStringSecurityDescriptorW(access.get()->lpSecurityDescriptor,
                                                             SDDL_REVISION_1, DACL_SECURITY_INFORMATION,
                                                             &text, nullptr) == 0) {
    return {};
  }
  const std::wstring copy = text;
  ::LocalFree(text);
  return copy;
}

TEST(NewAccessTest, ListNamesTheSystemAdministratorsAndThisUserAlone) {
  NewAccess access;
  ASSERT_TRUE(access);
  const std::wstring text = TextOf(access), start = L"D:P(A;OICI;FA;;;SY)(A;OICI;FA;;;BA)(A;OICI;FA;;;";
  ASSERT_EQ(text.substr(0, start.size()), start);
  EXPECT_EQ(text.find(L'(', start.size()), std::wstring::npos) << "a further entry";
}

TEST(NewAccessTest, OthersGetTheRightsThatWereGivenAndPassNoneOn) {
  NewAccess access(FILE_GENERIC_READ);
  ASSERT_TRUE(access);
  const std::wstring text = TextOf(access), end = L"(A;;FR;;;WD)";
  ASSERT_GT(text.size(), end.size());
  EXPECT_EQ(text.substr(text.size() - end.size()), end);
}

class FileAccessTest : public ::testing::TestWithParam<Readers> {};

TEST_P(FileAccessTest, AFileHasTheReadersThatWereAsked) {
  const std::string path = "access-test-" + std::to_string(ProcessNumber());
  ASSERT_EQ(WriteNewFile(path, "secret", GetParam()), 0);
  FileAccess access;
  {
    const Handle file(
        ::CreateFileW(WidePath(path).c_str(), READ_CONTROL, 7, nullptr, OPEN_EXISTING, 0, nullptr));
    ASSERT_TRUE(file);
    ASSERT_TRUE(AccessOf(file.get(), &access));
  }
  EXPECT_TRUE(access.ours);
  EXPECT_EQ(access.others_read, GetParam() == Readers::kEveryone);
  EXPECT_FALSE(access.others_write);
  std::string text;
  EXPECT_EQ(ReadPrivateFile(path, 100, &text), GetParam() == Readers::kOwner ? 0 : EPERM);
  EXPECT_EQ(RemoveFile(path), 0);
}

INSTANTIATE_TEST_SUITE_P(Both, FileAccessTest, ::testing::Values(Readers::kOwner, Readers::kEveryone));

}  // namespace
}  // namespace nd::os
