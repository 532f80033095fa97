// SPDX-License-Identifier: Apache-2.0
// Exit codes and texts of errors.
#include "cli/error.h"

#include <gtest/gtest.h>

namespace nd::cli {
namespace {

TEST(Error, StatusesAndExitCodes) {
  EXPECT_FALSE(FailureOf(Status::Ok(), "x"));
  EXPECT_EQ(Exit::kNotFound, FailureOf(StatusCode::kInvalidHandle, "x")->exit);
  EXPECT_EQ(Exit::kNotFound, FailureOf(StatusCode::kInvalidDeviceState, "x")->exit);
  EXPECT_EQ(Exit::kPermission, FailureOf(StatusCode::kAccessDenied, "x")->exit);
  EXPECT_EQ(Exit::kTimeout, FailureOf(StatusCode::kIoTimeout, "x")->exit);
  EXPECT_EQ(Exit::kFailed, FailureOf(StatusCode::kConnectionRefused, "x")->exit);
  EXPECT_EQ(Exit::kUnreachable,
            FailureOf(Status(StatusCode::kDeviceRemoved, "", Detail::kBrokerUnreachable), "x")->exit);
}

TEST(Error, Text) {
  EXPECT_EQ("ndctl: cause\n  next step\n", FormatError({Exit::kNotFound, "cause", "next step", ""}, false));
  EXPECT_EQ("ndctl: cause\n", FormatError({Exit::kFailed, "cause", "", ""}, false));
}

TEST(Error, Json) {
  EXPECT_EQ(
      R"({"apiVersion":"ndbroker/v1","kind":"Error","error":{"code":"NOT_FOUND","exit_code":3,"message":"a \"b\"",)"
      R"("hint":"h","status":"INVALID_HANDLE"}})"
      "\n",
      FormatError({Exit::kNotFound, "a \"b\"", "h", "INVALID_HANDLE"}, true));
}

}  // namespace
}  // namespace nd::cli
