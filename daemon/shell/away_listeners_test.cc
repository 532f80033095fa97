// SPDX-License-Identifier: Apache-2.0
#include "daemon/shell/away_listeners.h"

#include <gtest/gtest.h>

namespace nd::service {
namespace {

core::Lease LeaseOf(core::PortKind kind, const char* local) {
  return {"soft0", Address::Parse(local).value(), kind, {}};
}
provider::InboundRequest RequestTo(std::uint64_t id, const char* local) {
  provider::InboundRequest request;
  request.id = provider::CmId{id};
  request.adapter = "soft0";
  request.local = Address::Parse(local).value();
  return request;
}
std::vector<std::uint64_t> Ids(const std::vector<provider::InboundRequest>& requests) {
  std::vector<std::uint64_t> out;
  for (const auto& request : requests) out.push_back(static_cast<std::uint64_t>(request.id));
  return out;
}
using Expected = std::vector<std::uint64_t>;

TEST(AwayListeners, HoldsRequestsUntilTheirListenerIsBack) {
  AwayListeners away({LeaseOf(core::PortKind::kListener, "10.0.0.1:7000"),
                      LeaseOf(core::PortKind::kListener, "0.0.0.0:7001"),
                      LeaseOf(core::PortKind::kConnector, "10.0.0.1:7002")});
  EXPECT_TRUE(away.Hold(RequestTo(1, "10.0.0.1:7000")));
  EXPECT_TRUE(away.Hold(RequestTo(2, "10.0.0.1:7001"))) << "the listener serves every address";
  EXPECT_TRUE(away.Hold(RequestTo(3, "10.0.0.1:7000")));
  EXPECT_FALSE(away.Hold(RequestTo(4, "10.0.0.1:7002"))) << "no listener had this port";
  EXPECT_FALSE(away.Hold(RequestTo(5, "10.0.0.2:7000"))) << "nobody listened at this address";
  EXPECT_FALSE(away.Hold(RequestTo(6, "[::1]:7001")));

  const Address first = Address::Parse("10.0.0.1:7000").value();
  EXPECT_EQ(Ids(away.Back("soft1", first)), Expected{}) << "another adapter";
  EXPECT_EQ(Ids(away.Back("soft0", first)), (Expected{1, 3}));
  EXPECT_FALSE(away.Hold(RequestTo(7, "10.0.0.1:7000"))) << "the core decides about a listener that is back";
  EXPECT_EQ(Ids(away.GiveUp()), Expected{2});
  EXPECT_TRUE(away.empty());
  EXPECT_FALSE(away.Hold(RequestTo(8, "10.0.0.1:7001")));
}

TEST(AwayListeners, AWithdrawnRequestIsForgotten) {
  AwayListeners away({LeaseOf(core::PortKind::kListener, "10.0.0.1:7000")});
  EXPECT_TRUE(away.Hold(RequestTo(1, "10.0.0.1:7000")));
  EXPECT_TRUE(away.Forget(provider::CmId{1}));
  EXPECT_FALSE(away.Forget(provider::CmId{1}));
  EXPECT_EQ(Ids(away.GiveUp()), Expected{});
}

TEST(AwayListeners, TheNumberOfHeldRequestsIsBounded) {
  AwayListeners away({LeaseOf(core::PortKind::kListener, "10.0.0.1:7000")});
  for (std::uint64_t i = 0; i < AwayListeners::kMostRequests; ++i) {
    ASSERT_TRUE(away.Hold(RequestTo(i + 1, "10.0.0.1:7000")));
  }
  EXPECT_FALSE(away.Hold(RequestTo(9999, "10.0.0.1:7000")));
}

}  // namespace
}  // namespace nd::service
