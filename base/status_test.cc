// SPDX-License-Identifier: Apache-2.0
#include "nd/status.h"

#include <gtest/gtest.h>

namespace nd {
namespace {

TEST(Status, NamesAreThoseOfTheSpecification) {
  EXPECT_EQ(Name(StatusCode::kConnectionRefused), "CONNECTION_REFUSED");
  EXPECT_EQ(Name(StatusCode::kInvalidParameter10), "INVALID_PARAMETER_10");
  EXPECT_EQ(Name(static_cast<StatusCode>(0xDEADBEEF)), "UNKNOWN");
  EXPECT_FALSE(IsKnown(static_cast<StatusCode>(0xDEADBEEF)));
}

TEST(Status, NamesConvertBothWays) {
  for (std::uint32_t value : {0x0u, 0x103u, 0x80000005u, 0xC000020Au, 0xC0000241u, 0xC00002B6u}) {
    const auto code = static_cast<StatusCode>(value);
    ASSERT_TRUE(IsKnown(code)) << std::hex << value;
    EXPECT_EQ(StatusCodeFromName(Name(code)), code);
  }
  EXPECT_FALSE(StatusCodeFromName("NO_SUCH_STATUS").has_value());
}

TEST(Status, TextHasCodeCauseAndMessage) {
  const Status status(StatusCode::kConnectionRefused, "nobody listens on 10.0.0.1:7", Detail::kNoListener);
  EXPECT_EQ(status.ToString(), "CONNECTION_REFUSED (no listener): nobody listens on 10.0.0.1:7");
  EXPECT_EQ(Status(StatusCode::kIoTimeout, "", Detail::kTransport, 110).ToString(),
            "IO_TIMEOUT (transport 110)");
}

TEST(Status, EveryDetailHasItsName) {
  EXPECT_EQ(Name(Detail::kNone), "none");
  EXPECT_EQ(Name(Detail::kPeerProcessDied), "peer process died");
  EXPECT_EQ(Name(Detail::kStaleConnection), "stale connection");
  EXPECT_EQ(Name(static_cast<Detail>(200)), "unknown");
}

TEST(Status, OnlyRetryableCodesAreRetryable) {
  EXPECT_TRUE(Status(StatusCode::kHostUnreachable).retryable());
  EXPECT_FALSE(Status(StatusCode::kConnectionAborted).retryable());
  EXPECT_FALSE(Status().retryable());
}

TEST(Result, CarriesValueOrReason) {
  Result<std::string> good(std::string("x"));
  EXPECT_TRUE(good.ok());
  EXPECT_EQ(*good, "x");
  Result<std::string> bad(StatusCode::kNoMemory, "none left");
  EXPECT_FALSE(bad.ok());
  EXPECT_EQ(bad.code(), StatusCode::kNoMemory);
  EXPECT_DEATH(bad.value(), "NO_MEMORY: none left");
}

}  // namespace
}  // namespace nd
