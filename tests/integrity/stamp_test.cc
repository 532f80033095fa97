// SPDX-License-Identifier: Apache-2.0
// Checks the checker: each kind of damage is detected at its first byte and named.
#include "tests/integrity/stamp.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace nd::integrity {
namespace {

constexpr Stream kStream{7, 3};

std::vector<std::byte> Data(std::uint64_t offset, std::size_t size, const Stream& stream = kStream) {
  std::vector<std::byte> data(size);
  Fill(stream, offset, data);
  return data;
}

std::string Verdict(std::uint64_t offset, const std::vector<std::byte>& data) {
  return Check(kStream, offset, data).value_or("");
}

TEST(Stamp, DoesNotDependOnTheCuts) {
  const std::vector<std::byte> whole = Data(1000, 4096);
  Random random(1);
  for (int i = 0; i < 2000; ++i) {
    const std::size_t at = random.Below(4096), size = random.Below(static_cast<std::uint32_t>(4096 - at));
    const std::vector<std::byte> part = Data(1000 + at, size);
    ASSERT_TRUE(std::equal(part.begin(), part.end(), whole.begin() + static_cast<std::ptrdiff_t>(at)))
        << at << " " << size;
    ASSERT_EQ(Verdict(1000 + at, part), "");
  }
}

TEST(Stamp, EveryFlippedBitIsLocated) {
  for (std::size_t bit = 0; bit < 64 * 8; ++bit) {
    std::vector<std::byte> data = Data(13, 64);
    data[bit / 8] ^= std::byte{1} << (bit % 8);
    EXPECT_EQ(Verdict(13, data).find("stream 3 byte " + std::to_string(13 + bit / 8) + " is"), 0u) << bit;
  }
}

TEST(Stamp, LostBytesAreNamed) {
  std::vector<std::byte> data = Data(80, 512);
  data.erase(data.begin() + 100, data.begin() + 105);
  const std::string verdict = Verdict(80, data);
  EXPECT_NE(verdict.find("stream 3 byte 180 "), std::string::npos) << verdict;
  EXPECT_NE(verdict.find("5 too soon"), std::string::npos) << verdict;
}

TEST(Stamp, RepeatedBytesAreNamed) {
  std::vector<std::byte> data = Data(80, 512);
  data.insert(data.begin() + 100, data.begin() + 68, data.begin() + 100);
  const std::string verdict = Verdict(80, data);
  EXPECT_NE(verdict.find("32 behind"), std::string::npos) << verdict;
}

TEST(Stamp, ReorderedPiecesAreNamed) {
  std::vector<std::byte> data = Data(0, 512);
  for (std::size_t i = 0; i < 64; ++i) std::swap(data[128 + i], data[256 + i]);
  const std::string verdict = Verdict(0, data);
  EXPECT_NE(verdict.find("byte 128 is"), std::string::npos) << verdict;
  EXPECT_NE(verdict.find("byte 256 is here, 128 too soon"), std::string::npos) << verdict;
}

TEST(Stamp, DataOfAnotherStreamIsNamed) {
  const std::string verdict = Verdict(640, Data(640, 64, {7, 9}));
  EXPECT_NE(verdict.find("data of stream 9, byte 640"), std::string::npos) << verdict;
}

TEST(Stamp, ForeignBytesAreNamed) {
  const std::string verdict = Verdict(0, std::vector<std::byte>(64));
  EXPECT_NE(verdict.find("not data of this test"), std::string::npos) << verdict;
}

TEST(Stamp, TouchedCanaryIsNamed) {
  std::vector<std::byte> guard(40, kCanary);
  EXPECT_EQ(CheckCanary(guard), std::nullopt);
  guard[39] = std::byte{1};
  EXPECT_NE(CheckCanary(guard).value_or("").find("byte 39 of 40"), std::string::npos);
}

}  // namespace
}  // namespace nd::integrity
