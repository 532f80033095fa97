// SPDX-License-Identifier: Apache-2.0
// The table of regions that the broker reads: it has every region, also after a change of brokers.
#include "client-lib/core/listed_regions.h"

#include <gtest/gtest.h>

namespace nd::client {
namespace {

using provider::kRegionRows;
using provider::RegionKind;

std::shared_ptr<MappedCounters> PagesWithTable() {
  provider::CountersPageRecord record;
  record.slot_count = 256;
  provider::RegionRowsOf(record) = kRegionRows;
  auto pages = std::make_shared<MappedCounters>();
  const std::size_t size = 256 * sizeof(provider::QpCounters) + sizeof(provider::RegionTable);
  EXPECT_TRUE(pages->Add(record, CreateSealedMemfd("page", size).value()).ok());
  return pages;
}

// number -> bytes of the rows that are in use.
std::map<std::uint64_t, std::uint64_t> RowsOf(MappedCounters& pages) {
  std::map<std::uint64_t, std::uint64_t> rows;
  provider::RegionTable* const table = pages.regions();
  for (std::uint32_t i = 0; i < table->used; ++i) {
    EXPECT_EQ(table->rows[i].sequence % 2, 0u);
    if (table->rows[i].kind != 0) rows[table->rows[i].number] = table->rows[i].bytes;
  }
  return rows;
}

TEST(ListedRegions, ShowsEveryRegionFromTheFirstPageOn) {
  ListedRegions table;
  const std::uint64_t early = table.Add({RegionKind::kRegion, 100, 3, provider::kRegionOfBuffer});
  const auto pages = PagesWithTable();
  table.Use(pages);
  const std::uint64_t late = table.Add({RegionKind::kWindow, 0, 0, 0});
  EXPECT_EQ(RowsOf(*pages), (std::map<std::uint64_t, std::uint64_t>{{early, 100}, {late, 0}}));
  const provider::RegionRow& row = pages->regions()->rows[0];
  EXPECT_EQ(row.access, 3u);
  EXPECT_EQ(row.flags, provider::kRegionOfBuffer);
  table.Remove(early);
  table.Remove(early);
  EXPECT_EQ(RowsOf(*pages), (std::map<std::uint64_t, std::uint64_t>{{late, 0}}));
  table.Add({RegionKind::kRegion, 7, 0, 0});
  EXPECT_EQ(pages->regions()->used, 2u) << "a free row is used again";
}

TEST(ListedRegions, IsWrittenAgainForTheNextBroker) {
  ListedRegions table;
  const auto first = PagesWithTable(), second = PagesWithTable();
  table.Use(first);
  const std::uint64_t one = table.Add({RegionKind::kRegion, 1, 0, 0});
  const std::uint64_t two = table.Add({RegionKind::kRegion, 2, 0, 0});
  table.Remove(one);
  table.Use(second);
  table.Use(second);
  EXPECT_EQ(RowsOf(*second), (std::map<std::uint64_t, std::uint64_t>{{two, 2}}));
  table.Remove(two);
  EXPECT_TRUE(RowsOf(*second).empty());
  EXPECT_EQ(RowsOf(*first).size(), 1u) << "nothing is written there any more";
}

TEST(ListedRegions, CountsRegionsWithoutARow) {
  ListedRegions table;
  const auto pages = PagesWithTable();
  table.Use(pages);
  std::vector<std::uint64_t> numbers;
  for (std::uint32_t i = 0; i < kRegionRows + 3; ++i)
    numbers.push_back(table.Add({RegionKind::kRegion, 1, 0, 0}));
  EXPECT_EQ(pages->regions()->unlisted, 3u);
  EXPECT_EQ(RowsOf(*pages).size(), kRegionRows);
  table.Remove(numbers.back());
  EXPECT_EQ(pages->regions()->unlisted, 2u);
  table.Remove(numbers.front());
  EXPECT_EQ(pages->regions()->unlisted, 1u);
  EXPECT_EQ(RowsOf(*pages).count(numbers[kRegionRows]), 1u) << "the next one has its row";
}

TEST(ListedRegions, BrokerWithoutATableIsSupported) {
  ListedRegions table;
  provider::CountersPageRecord record;
  record.slot_count = 256;
  const auto pages = std::make_shared<MappedCounters>();
  EXPECT_EQ(pages->regions(), nullptr);
  EXPECT_TRUE(pages->Add(record, CreateSealedMemfd("page", 256 * sizeof(provider::QpCounters)).value()).ok());
  table.Use(pages);
  table.Use(nullptr);
  table.Remove(table.Add({RegionKind::kRegion, 1, 0, 0}));
  EXPECT_EQ(pages->regions(), nullptr);
}

TEST(ListedRegions, MissingTableIsRefused) {
  provider::CountersPageRecord record;
  record.slot_count = 256;
  provider::RegionRowsOf(record) = kRegionRows;
  MappedCounters pages;
  EXPECT_FALSE(
      pages.Add(record, CreateSealedMemfd("small", 256 * sizeof(provider::QpCounters)).value()).ok());
}

TEST(ListedRegion, EndsWithTheLastHandleOrWithForget) {
  const auto table = std::make_shared<ListedRegions>();
  const auto pages = PagesWithTable();
  table->Use(pages);
  std::shared_ptr<int> handle = Listed(std::make_shared<int>(5), table, {RegionKind::kRegion, 9, 0, 0});
  std::shared_ptr<int> copy = handle;
  EXPECT_EQ(*handle, 5);
  handle.reset();
  EXPECT_EQ(RowsOf(*pages).size(), 1u);
  std::get_deleter<ListedRegion>(copy)->Forget();
  EXPECT_TRUE(RowsOf(*pages).empty());
  copy.reset();
  handle = Listed(std::make_shared<int>(5), table, {RegionKind::kRegion, 9, 0, 0});
  handle.reset();
  EXPECT_TRUE(RowsOf(*pages).empty());
}

}  // namespace
}  // namespace nd::client
