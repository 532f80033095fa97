// SPDX-License-Identifier: Apache-2.0
// Valid and hostile frames, whole and in pieces.
#include "daemon/service/http2_guard.h"

#include <gtest/gtest.h>

#include <string>

namespace nd::service {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr Time kStart{seconds(1000)};

std::string Frame(int kind, int flags, std::size_t length) {
  std::string out = {static_cast<char>(length >> 16),
                     static_cast<char>(length >> 8),
                     static_cast<char>(length),
                     static_cast<char>(kind),
                     static_cast<char>(flags),
                     0,
                     0,
                     0,
                     1};
  return out + std::string(length, 'x');
}
const std::string kPreface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

class Http2GuardTest : public ::testing::Test {
 protected:
  std::string_view Take(const std::string& bytes, Time now = kStart) {
    return guard_.Take(std::as_bytes(std::span(bytes)), now);
  }
  // Returns how many of this frame pass at once.
  std::size_t Pass(const std::string& frame, std::size_t most = 100'000) {
    std::size_t passed = 0;
    while (passed < most && (why_ = Take(frame)).empty()) ++passed;
    return passed;
  }
  Http2Guard guard_;
  std::string_view why_;  // The last result of Take() in Pass().
};

TEST_F(Http2GuardTest, HonestConnectionPassesByteByByte) {
  std::string all = kPreface + Frame(4, 0, 18) + Frame(8, 0, 4) + Frame(1, 4, 200);
  for (int i = 0; i < 2000; ++i) all += Frame(0, 0, 60) + Frame(8, 0, 4) + Frame(6, 1, 8) + Frame(4, 1, 0);
  all += Frame(0, 1, 0);
  for (const char byte : all) ASSERT_EQ(Take(std::string(1, byte)), "");
}

TEST_F(Http2GuardTest, NewStreamsAreCountedHoweverTheyEnd) {
  Take(kPreface);
  EXPECT_EQ(Pass(Frame(1, 5, 10) + Frame(3, 0, 4)), 64u);
  EXPECT_EQ(why_, "it opens streams too fast");
  // The rate of a program that calls occasionally, for ever.
  Http2Guard slow;
  for (int i = 0; i < 5000; ++i) {
    const std::string frame = Frame(1, 5, 10);
    ASSERT_EQ(slow.Take(std::as_bytes(std::span(i == 0 ? kPreface : frame)), kStart + i * milliseconds(70)),
              "");
  }
}

TEST_F(Http2GuardTest, EmptyFramesAreCounted) {
  for (const int kind : {0, 2, 3, 4, 6, 7, 5, 77}) {
    Http2Guard guard;
    guard.Take(std::as_bytes(std::span(kPreface)), kStart);
    const std::string frame = Frame(kind, 0, kind == 0 ? 0 : 8);
    std::size_t passed = 0;
    while (passed < 1000 && guard.Take(std::as_bytes(std::span(frame)), kStart).empty()) ++passed;
    EXPECT_EQ(passed, 256u) << kind;
  }
}

TEST(Bucket, DebtIsPaidByTime) {
  Bucket bucket({10, 100});
  bucket.Charge(10, kStart);
  EXPECT_EQ(bucket.Debt(kStart), Duration::zero());
  bucket.Charge(50, kStart);
  EXPECT_EQ(bucket.Debt(kStart), milliseconds(500));
  EXPECT_EQ(bucket.Debt(kStart + milliseconds(400)), milliseconds(100));
  EXPECT_FALSE(bucket.full(kStart + milliseconds(599)));
  EXPECT_TRUE(bucket.full(kStart + milliseconds(601)));
}

TEST_F(Http2GuardTest, HeaderBlockHasASizeLimit) {
  Take(kPreface);
  EXPECT_EQ(Take(Frame(1, 0, 100)), "");
  EXPECT_EQ(Pass(Frame(9, 0, 1)), 8u);
  Http2Guard large;
  large.Take(std::as_bytes(std::span(kPreface)), kStart);
  const std::string first = Frame(1, 0, 12'000), second = Frame(9, 0, 5'000);
  EXPECT_EQ(large.Take(std::as_bytes(std::span(first)), kStart), "");
  EXPECT_EQ(large.Take(std::as_bytes(std::span(second)), kStart), "its header block is too large");
  const std::string huge = Frame(1, 0, 17'000);
  Http2Guard one;
  one.Take(std::as_bytes(std::span(kPreface)), kStart);
  EXPECT_EQ(one.Take(std::as_bytes(std::span(huge)), kStart), "its header block is too large");
}

}  // namespace
}  // namespace nd::service
