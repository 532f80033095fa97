// SPDX-License-Identifier: Apache-2.0
#include "provider/soft/cm/half_open_peers.h"

#include <gtest/gtest.h>

namespace nd::provider::soft {
namespace {

Address Peer(const char* text) {
  return Address::Parse(text).value();
}

TEST(HalfOpenPeers, TheLargestNetworkLosesItsOldestPeer) {
  HalfOpenPeers peers;
  EXPECT_EQ(peers.Victim(), std::nullopt);
  peers.Add(CmId{1}, Peer("192.0.2.1:1"));
  peers.Add(CmId{2}, Peer("198.51.100.1:1"));
  peers.Add(CmId{3}, Peer("198.51.100.2:1"));  // The same /24 as 2.
  EXPECT_EQ(peers.Victim(), CmId{2});
  EXPECT_TRUE(peers.Remove(CmId{2}));
  EXPECT_FALSE(peers.Remove(CmId{2}));
  peers.Add(CmId{4}, Peer("198.51.100.3:1"));
  EXPECT_EQ(peers.Victim(), CmId{3});
  EXPECT_EQ(peers.size(), 3u);
  EXPECT_FALSE(peers.Has(CmId{2}));
}

TEST(HalfOpenPeers, ANetworkOfIpv6HasSixtyFourBits) {
  HalfOpenPeers peers;
  peers.Add(CmId{1}, Peer("[2001:db8:1::1]:1"));
  peers.Add(CmId{2}, Peer("[2001:db8:2::1]:1"));
  peers.Add(CmId{3}, Peer("[2001:db8:2::ffff]:1"));
  EXPECT_EQ(peers.Victim(), CmId{2});
}

}  // namespace
}  // namespace nd::provider::soft
