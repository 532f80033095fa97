// SPDX-License-Identifier: Apache-2.0
#include "provider/soft/qp/shm/peer_mappings.h"

#include <gtest/gtest.h>

#include <vector>

#include "provider/soft/qp/token_table.h"

namespace nd::provider::soft {
namespace {

UniqueFd DescriptorOf(const TokenTable& table) {
  return os::Duplicate(table.fd());
}

TEST(PeerMappings, TableOfAProcessIsMappedOnce) {
  const auto one = TokenTable::Create().value(), other = TokenTable::Create().value();
  PeerMappings tables(kRegionTableSize, false);
  const auto first = tables.Take(DescriptorOf(*one).get());
  ASSERT_NE(first, nullptr);
  // Without numbers of memory each connection maps it.
  EXPECT_EQ(tables.Take(DescriptorOf(*one).get()) == first, os::NumberOf(one->fd()).has_value());
  const auto second = tables.Take(DescriptorOf(*other).get());
  ASSERT_NE(second, nullptr);
  EXPECT_NE(second->data(), first->data());
}

TEST(PeerMappings, TableIsUnmappedWithItsLastConnectionWhenAnotherWasTaken) {
  const auto table = TokenTable::Create().value(), other = TokenTable::Create().value();
  PeerMappings tables(kRegionTableSize, false);
  std::weak_ptr<const Mapping> seen = tables.Take(DescriptorOf(*table).get());
  ASSERT_FALSE(seen.expired()) << "the next connection with the same process finds it";
  if (os::NumberOf(table->fd())) {
    EXPECT_EQ(tables.Take(DescriptorOf(*table).get()), seen.lock());
  }
  const auto used = tables.Take(DescriptorOf(*other).get());
  EXPECT_TRUE(seen.expired());
  EXPECT_NE(tables.Take(DescriptorOf(*table).get()), nullptr);
  EXPECT_NE(used, nullptr);
}

TEST(PeerMappings, OtherMemoryIsNoTable) {
  PeerMappings tables(kRegionTableSize, false);
  EXPECT_EQ(tables.Take(-1), nullptr);
  EXPECT_EQ(tables.Take(CreateSealedMemfd("test", kRegionTableSize / 2)->get()), nullptr);
}

}  // namespace
}  // namespace nd::provider::soft
