// SPDX-License-Identifier: Apache-2.0
#include "base/os/error_text.h"

#include <gtest/gtest.h>

#include <cerrno>

namespace nd::os {
namespace {

TEST(ErrorText, NumbersOfFilesAndSocketsHaveTheSameSentencesOnEverySystem) {
  EXPECT_EQ(ErrorText(ENOENT), "No such file or directory");
  EXPECT_EQ(ErrorText(EADDRINUSE), "Address already in use");
  EXPECT_EQ(ErrorText(ECONNREFUSED), "Connection refused");
  EXPECT_EQ(ErrorText(ETIMEDOUT), "Connection timed out");
  for (const int error :
       {EADDRNOTAVAIL, EAFNOSUPPORT, ECONNABORTED, ECONNRESET, EHOSTUNREACH, EINPROGRESS, ELOOP, EMSGSIZE,
        ENETDOWN, ENETUNREACH, ENOBUFS, ENOTCONN, ENOTSOCK, EOPNOTSUPP, EOVERFLOW, EPROTO}) {
    EXPECT_EQ(ErrorText(error).find("Unknown"), std::string::npos) << error;
  }
}

}  // namespace
}  // namespace nd::os
