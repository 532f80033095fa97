// SPDX-License-Identifier: Apache-2.0
#include "provider/soft/wire/ndb_header.h"

#include <gtest/gtest.h>

#include <array>

namespace nd::provider::soft::wire {
namespace {

const NdbHeader kHeader{Detail::kBacklogFull, kNdbConfirmationReads, 0x1234, 0xABCD};

TEST(NdbHeader, HasTheDocumentedLayout) {
  std::array<std::byte, kNdbHeaderSize> bytes;
  EncodeNdbHeader(kHeader, bytes.data());
  const std::uint8_t expected[] = {'N', 'D', 'B', '1', 1, 2, 0, 1, 0x12, 0x34, 0xAB, 0xCD};
  EXPECT_TRUE(std::ranges::equal(bytes, AsBytes(expected)));
}

TEST(NdbHeader, RoundTripsWithDataBehindIt) {
  std::array<std::byte, 40> bytes{};
  EncodeNdbHeader(kHeader, bytes.data());
  EXPECT_EQ(DecodeNdbHeader(bytes), kHeader);
}

TEST(NdbHeader, IsAbsentFromShorterData) {
  std::array<std::byte, kNdbHeaderSize> bytes;
  EncodeNdbHeader(kHeader, bytes.data());
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_FALSE(DecodeNdbHeader(ByteSpan(bytes).first(size))) << size;
  }
}

TEST(NdbHeader, EveryOtherMagicOrVersionIsForeign) {
  for (std::size_t at = 0; at < 5; ++at) {
    for (unsigned value = 0; value < 256; ++value) {
      std::array<std::byte, kNdbHeaderSize> bytes;
      EncodeNdbHeader(kHeader, bytes.data());
      const bool same = bytes[at] == static_cast<std::byte>(value);
      bytes[at] = static_cast<std::byte>(value);
      EXPECT_EQ(DecodeNdbHeader(bytes).has_value(), same) << at << " " << value;
    }
  }
}

TEST(NdbHeader, EveryReasonIsKept) {
  for (unsigned reason = 0; reason <= static_cast<unsigned>(Detail::kStaleConnection); ++reason) {
    std::array<std::byte, kNdbHeaderSize> bytes;
    EncodeNdbHeader({static_cast<Detail>(reason), 0, 1, 2}, bytes.data());
    EXPECT_EQ(DecodeNdbHeader(bytes)->reason, static_cast<Detail>(reason));
  }
}

TEST(NdbHeader, UnknownReasonIsAPeerRejection) {
  std::array<std::byte, kNdbHeaderSize> bytes;
  EncodeNdbHeader(kHeader, bytes.data());
  bytes[5] = std::byte{200};
  EXPECT_EQ(DecodeNdbHeader(bytes)->reason, Detail::kPeerRejected);
}

}  // namespace
}  // namespace nd::provider::soft::wire
