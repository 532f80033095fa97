// SPDX-License-Identifier: Apache-2.0
#include "provider/soft/wire/crc32c.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace nd::provider::soft::wire {
namespace {

std::uint32_t Bitwise(std::uint32_t crc, ByteSpan data) {
  std::uint32_t state = ~crc;
  for (const std::byte byte : data) {
    state ^= ToInt(byte);
    for (int bit = 0; bit < 8; ++bit) state = (state & 1) != 0 ? (state >> 1) ^ 0x82F63B78u : state >> 1;
  }
  return ~state;
}

std::vector<std::byte> Noise(std::size_t size) {
  std::vector<std::byte> data(size);
  std::uint64_t x = 0x9E3779B97F4A7C15u;
  for (std::byte& byte : data) {
    x ^= x << 13, x ^= x >> 7, x ^= x << 17;
    byte = static_cast<std::byte>(x >> 32);
  }
  return data;
}

class EachVariant : public ::testing::TestWithParam<CrcVariant> {
 protected:
  void SetUp() override {
    if (!Supported(GetParam())) GTEST_SKIP() << "this CPU has no " << Name(GetParam());
  }
};

TEST_P(EachVariant, KnowsThePublishedValues) {
  const std::string digits = "123456789";
  const ByteSpan bytes = std::as_bytes(std::span(digits));
  EXPECT_EQ(ExtendCrc32cWith(GetParam(), 0, bytes), 0xE3069283u);
  EXPECT_EQ(ExtendCrc32cWith(GetParam(), 0, {}), 0u);
  // RFC 3720 B.4.
  const std::vector<std::byte> zeros(32), ones(32, std::byte{0xFF});
  EXPECT_EQ(ExtendCrc32cWith(GetParam(), 0, zeros), 0x8A9136AAu);
  EXPECT_EQ(ExtendCrc32cWith(GetParam(), 0, ones), 0x62A8AB43u);
}

TEST_P(EachVariant, AgreesWithTheBitwiseReferenceAtEverySmallSizeAndAlignment) {
  const std::vector<std::byte> data = Noise(1600 + 64);
  for (std::size_t align = 0; align < 64; ++align) {
    // Growing the reference by one byte at a time keeps this linear.
    std::uint32_t expected = 0x12345678;
    for (std::size_t size = 0; size <= 1600; ++size) {
      const ByteSpan bytes = ByteSpan(data).subspan(align, size);
      if (align % 16 == 0 || size < 600 || size % 7 == 0) {
        ASSERT_EQ(ExtendCrc32cWith(GetParam(), 0x12345678, bytes), expected)
            << "size " << size << " at " << align;
      }
      expected = Bitwise(expected, ByteSpan(data).subspan(align + size, size < 1600 ? 1 : 0));
    }
  }
}

TEST_P(EachVariant, AgreesAtLargeSizes) {
  const std::vector<std::byte> data = Noise(200'000);
  for (const std::size_t size : {4031u, 4032u, 4033u, 8064u, 16384u, 65535u, 65536u, 131'071u, 199'999u}) {
    const ByteSpan bytes = ByteSpan(data).subspan(1, size);
    EXPECT_EQ(ExtendCrc32cWith(GetParam(), 7, bytes), Bitwise(7, bytes)) << size;
  }
}

TEST_P(EachVariant, ContinuesAcrossAnyCut) {
  const std::vector<std::byte> data = Noise(700);
  const std::uint32_t whole = Bitwise(0, data);
  for (std::size_t cut = 0; cut <= data.size(); ++cut) {
    const std::uint32_t head = ExtendCrc32cWith(GetParam(), 0, ByteSpan(data).first(cut));
    ASSERT_EQ(ExtendCrc32cWith(GetParam(), head, ByteSpan(data).subspan(cut)), whole) << cut;
  }
}

std::string VariantName(const ::testing::TestParamInfo<CrcVariant>& variant) {
  constexpr const char* kNames[] = {"Portable", "Sse42", "Avx2", "Avx512"};
  return kNames[static_cast<std::size_t>(variant.param)];
}

INSTANTIATE_TEST_SUITE_P(Crc32c, EachVariant, ::testing::ValuesIn(kCrcVariants), VariantName);

TEST(Crc32c, SelectsASupportedVariant) {
  EXPECT_TRUE(Supported(CrcVariant::kPortable));
  EXPECT_TRUE(Supported(SelectedCrcVariant()));
}

// A later variant is faster; the names are in the log of the daemon.
TEST(Crc32c, VariantsHaveNamesAndTheLastSupportedOneIsSelected) {
  EXPECT_STREQ(Name(CrcVariant::kPortable), "portable");
  EXPECT_STREQ(Name(CrcVariant::kAvx512), "avx512+vpclmulqdq");
  for (const CrcVariant variant : kCrcVariants) {
    if (variant <= SelectedCrcVariant()) continue;
    EXPECT_FALSE(Supported(variant)) << Name(variant);
  }
}

}  // namespace
}  // namespace nd::provider::soft::wire
