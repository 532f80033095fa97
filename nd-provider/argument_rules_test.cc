// SPDX-License-Identifier: Apache-2.0
#include "nd-provider/argument_rules.h"

#include <gtest/gtest.h>

namespace nd::spi {
namespace {

using enum StatusCode;

TEST(ArgumentRules, NumbersAreThoseOfNdspi) {
  EXPECT_EQ(OfCreateCompletionQueue(kInvalidParameter1), kInvalidParameter3);
  EXPECT_EQ(OfCreateSharedReceiveQueue(kInvalidParameter1), kInvalidParameter3);
  EXPECT_EQ(OfCreateSharedReceiveQueue(kInvalidParameter2), kInvalidParameter4);
  // Receive queue, initiator queue; depths, elements and inline data have the same number.
  EXPECT_EQ(OfCreateQueuePair(kInvalidParameter1), kInvalidParameter2);
  EXPECT_EQ(OfCreateQueuePair(kInvalidParameter2), kInvalidParameter3);
  for (StatusCode same :
       {kInvalidParameter5, kInvalidParameter6, kInvalidParameter7, kInvalidParameter8, kInvalidParameter9}) {
    EXPECT_EQ(OfCreateQueuePair(same), same);
  }
  // The shared queue, the depth, elements and inline data of the initiator.
  EXPECT_EQ(OfCreateQueuePairWithSrq(kInvalidParameter1), kInvalidParameter2);
  EXPECT_EQ(OfCreateQueuePairWithSrq(kInvalidParameter2), kInvalidParameter3);
  EXPECT_EQ(OfCreateQueuePairWithSrq(kInvalidParameter3), kInvalidParameter4);
  EXPECT_EQ(OfCreateQueuePairWithSrq(kInvalidParameter6), kInvalidParameter6);
  EXPECT_EQ(OfCreateQueuePairWithSrq(kInvalidParameter8), kInvalidParameter7);
  EXPECT_EQ(OfCreateQueuePairWithSrq(kInvalidParameter9), kInvalidParameter8);
}

TEST(ArgumentRules, OtherStatusesStay) {
  for (StatusCode status : {kSuccess, kInsufficientResources, kDeviceRemoved, kInvalidHandle, kNoMemory}) {
    EXPECT_EQ(OfCreateCompletionQueue(status), status);
    EXPECT_EQ(OfCreateSharedReceiveQueue(status), status);
    EXPECT_EQ(OfCreateQueuePair(status), status);
    EXPECT_EQ(OfCreateQueuePairWithSrq(status), status);
  }
}

TEST(ArgumentRules, CompatibilityIsChosenByWholeWords) {
  EXPECT_EQ(CompatibilityOf(nullptr), Compatibility{});
  EXPECT_EQ(CompatibilityOf(""), Compatibility{});
  EXPECT_EQ(CompatibilityOf("refusednot, badnets"), Compatibility{});
  EXPECT_EQ(CompatibilityOf("refused"), (Compatibility{.refused = true}));
  EXPECT_EQ(CompatibilityOf("unknown,badnet"), (Compatibility{.badnet = true}));
  EXPECT_EQ(CompatibilityOf("sge, refused  badnet"), (Compatibility{true, true, true}));
}

TEST(ArgumentRules, CompatibilityChangesOneAnswerEach) {
  const Compatibility none, all{true, true, true};
  EXPECT_EQ(OfAccept(kConnectionAborted, none), kConnectionAborted);
  EXPECT_EQ(OfAccept(kConnectionAborted, all), kConnectionRefused);
  EXPECT_EQ(OfAccept(kIoTimeout, all), kIoTimeout);
  EXPECT_EQ(OfConnect(kNetworkUnreachable, none), kNetworkUnreachable);
  EXPECT_EQ(OfConnect(kNetworkUnreachable, all), kBadNetworkName);
  EXPECT_EQ(OfConnect(kInvalidAddress, all), kBadNetworkName);
  EXPECT_EQ(OfConnect(kHostUnreachable, all), kHostUnreachable);
  EXPECT_EQ(InitiatorSges(1, 8, none), 1u);
  EXPECT_EQ(InitiatorSges(1, 8, all), 2u);
  EXPECT_EQ(InitiatorSges(0, 1, all), 1u);
  EXPECT_EQ(InitiatorSges(9, 8, all), 9u) << "the library refuses it";
}

TEST(ArgumentRules, RegionFlagsOutsideNdspiAreRefused) {
  std::uint32_t access = 0;
  EXPECT_TRUE(SplitRegionFlags(0x8000000F, &access));
  EXPECT_EQ(access, 0xFu);
  EXPECT_FALSE(SplitRegionFlags(0x10, &access));
  EXPECT_FALSE(SplitRegionFlags(kAllowRemoteAtomic, &access)) << "beyond Network Direct";
}

}  // namespace
}  // namespace nd::spi
