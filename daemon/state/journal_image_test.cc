// SPDX-License-Identifier: Apache-2.0
// Images whose bytes are written by hand.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>

#include "daemon/state/journal_example.h"
#include "provider/soft/wire/crc32c.h"

namespace nd::state {
namespace {

using std::chrono::seconds;

TEST(JournalImage, HeaderIsJudgedByEachOfItsBytes) {
  const Header header{kBoot, 7, {kStart, kStart + seconds(1), kStart + seconds(2)}};
  const auto whole = EncodeHeader(header);
  const Recovery found = Recover(whole, kBoot);
  EXPECT_EQ(found.end, Recovery::End::kWhole) << "an image without records";
  EXPECT_EQ(found.header.generation, 7u);
  EXPECT_EQ(found.header.starts, header.starts);
  for (std::size_t at = 0; at < whole.size(); ++at) {
    auto damaged = whole;
    damaged[at] ^= std::byte{0x40};
    // The last character of the name is the version.
    EXPECT_EQ(Recover(damaged, kBoot).end, at == 7 ? Recovery::End::kOtherVersion : Recovery::End::kBadHeader)
        << at;
  }
  auto newer = whole;
  newer[7] = std::byte{'2'};
  for (std::size_t size = 1; size <= whole.size(); ++size) {
    EXPECT_EQ(Recover(std::span(newer).first(size), kBoot).end,
              size < 8 ? Recovery::End::kBadHeader : Recovery::End::kOtherVersion)
        << size;
  }
}

TEST(JournalImage, CountsFreedRecords) {
  const auto header = EncodeHeader({kBoot, 1, {kStart}});
  auto record = EncodeRecord(1, 0, MakeLease("10.0.0.1:7000", 1));
  const auto freed = EncodeFreed();
  std::copy(freed.begin(), freed.end(), record.begin());
  std::vector<std::byte> image(header.begin(), header.end());
  image.insert(image.end(), record.begin(), record.end());
  EXPECT_EQ(Recover(image, kBoot).freed, 1u);
  EXPECT_TRUE(Recover(image, kBoot).leases.empty());
}

// A forger can compute a correct checksum.
TEST(JournalImage, ForgedFieldsAreRefusedBehindAValidChecksum) {
  constexpr std::size_t kPort = 36, kFamily = 38, kKind = 39, kAdapter = 56, kChecksum = kRecordSize - 4;
  const auto header = EncodeHeader({kBoot, 1, {kStart}});
  const auto leases_with = [&](std::size_t at, const std::vector<std::uint8_t>& bytes) {
    auto record = EncodeRecord(1, 0, MakeLease("10.0.0.1:7000", 1));
    for (std::size_t i = 0; i < bytes.size(); ++i) record[at + i] = std::byte{bytes[i]};
    const std::uint32_t checksum = provider::soft::wire::Crc32c(
        std::span<const std::byte>(record).subspan(kMarkSize, kChecksum - kMarkSize));
    std::memcpy(&record[kChecksum], &checksum, sizeof checksum);
    std::vector<std::byte> image(header.begin(), header.end());
    image.insert(image.end(), record.begin(), record.end());
    return Recover(image, kBoot).leases.size();
  };
  EXPECT_EQ(leases_with(kPort, {0x58, 0x1B}), 1u) << "the port that it has";
  EXPECT_EQ(leases_with(kPort, {0, 0}), 0u);
  EXPECT_EQ(leases_with(kFamily, {6}), 1u);
  EXPECT_EQ(leases_with(kFamily, {5}), 0u);
  EXPECT_EQ(leases_with(kKind, {2}), 1u);
  EXPECT_EQ(leases_with(kKind, {3}), 0u) << "a lease of a lease";
  EXPECT_EQ(leases_with(kAdapter, {0, 0, 0, 0, 0}), 0u) << "no adapter";
  EXPECT_EQ(leases_with(kAdapter, {'a', 0, 'b', 0, 0}), 0u) << "text behind its end";
}

// A header that counts more starts than it has room for.
TEST(JournalImage, ForgedHeaderIsBad) {
  constexpr std::size_t kChecksum = kHeaderSize - 4, kStartCount = 16 + kMaxBootId;
  const auto end_with = [](std::size_t at, std::byte value) {
    auto header = EncodeHeader({kBoot, 1, {kStart}});
    header[at] = value;
    const std::uint32_t checksum =
        provider::soft::wire::Crc32c(std::span<const std::byte>(header).first(kChecksum));
    std::memcpy(&header[kChecksum], &checksum, sizeof checksum);
    return Recover(header, kBoot).end;
  };
  EXPECT_EQ(end_with(kStartCount, std::byte{kStarts + 1}), Recovery::End::kBadHeader);
  EXPECT_EQ(end_with(kStartCount, std::byte{kStarts}), Recovery::End::kWhole);
  EXPECT_EQ(end_with(0, std::byte{'X'}), Recovery::End::kBadHeader) << "another name";
}

TEST(JournalImage, GarbageIsCheckedWithinBounds) {
  std::mt19937 random(6);
  for (int i = 0; i < 3000; ++i) {
    std::vector<std::byte> image(random() % 1000);
    for (std::byte& b : image) b = static_cast<std::byte>(random());
    if (i % 2 == 0) {
      // With a valid header before it.
      const auto header = EncodeHeader({kBoot, 1, {kStart}});
      image.insert(image.begin(), header.begin(), header.end());
    }
    EXPECT_TRUE(Recover(image, kBoot).leases.empty());
  }
}

}  // namespace
}  // namespace nd::state
