// SPDX-License-Identifier: Apache-2.0
#include "provider/soft/qp/drive/ready_page.h"

#include <gtest/gtest.h>

#include <vector>

namespace nd::provider::soft {
namespace {

class ReadyPageTest : public ::testing::Test {
 protected:
  static constexpr std::size_t kUsed = 1001;

  std::vector<std::uint32_t> Taken() {
    std::vector<std::uint32_t> places;
    page_->Take(kUsed, [&](std::uint32_t place) { places.push_back(place); });
    return places;
  }
  void Announce(std::uint32_t place, std::uint16_t value) {
    reinterpret_cast<ReadyCounters*>(of_peer_.data())->at[place] = value;
  }

  std::unique_ptr<ReadyPage> page_ = ReadyPage::Create();
  Mapping of_peer_ = Mapping::Map(page_->fd(), sizeof(ReadyCounters), true).value();
};
using Places = std::vector<std::uint32_t>;

TEST_F(ReadyPageTest, EachChangeIsTakenOnce) {
  EXPECT_EQ(Taken(), Places{});
  for (const std::uint32_t place : {0u, 3u, 255u, 256u, 1000u}) Announce(place, 1);
  EXPECT_EQ(Taken(), (Places{0, 3, 255, 256, 1000}));
  EXPECT_EQ(Taken(), Places{});
  Announce(3, 65535);
  EXPECT_EQ(Taken(), Places{3});
  Announce(3, 0);
  EXPECT_EQ(Taken(), Places{3}) << "the counter wraps";
}

TEST_F(ReadyPageTest, AnnouncementsOfThisProcessAreTakenOnceToo) {
  page_->AnnounceHere(0);
  page_->AnnounceHere(1000);
  page_->AnnounceHere(1000);
  Announce(70, 1);
  EXPECT_EQ(Taken(), (Places{70, 0, 1000}));
  EXPECT_EQ(Taken(), Places{});
}

TEST_F(ReadyPageTest, PeersCannotShrinkIt) {
  EXPECT_TRUE(CheckSealedMemfd(page_->fd(), sizeof(ReadyCounters)).ok());
}

}  // namespace
}  // namespace nd::provider::soft
