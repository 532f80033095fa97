// SPDX-License-Identifier: Apache-2.0
#include "provider/queue_pair_rules.h"

#include <gtest/gtest.h>

#include <cstring>

namespace nd::provider {
namespace {

TEST(QueuePairRules, EachRequestHasItsFlags) {
  using enum RequestType;
  const struct {
    RequestType type;
    std::uint32_t known;
    StatusCode code;
  } cases[] = {
      {kSend, kOpSilentSuccess | kOpReadFence | kOpSendAndSolicit | kOpInline,
       StatusCode::kInvalidParameter4},
      {kWrite, kOpSilentSuccess | kOpReadFence | kOpInline, StatusCode::kInvalidParameter6},
      {kRead, kOpSilentSuccess | kOpReadFence, StatusCode::kInvalidParameter6},
      {kBind, kOpSilentSuccess | kOpReadFence | kOpAllowRead | kOpAllowWrite, StatusCode::kInvalidParameter6},
      {kInvalidate, kOpSilentSuccess | kOpReadFence, StatusCode::kInvalidParameter3},
  };
  for (const auto& c : cases) {
    EXPECT_TRUE(CheckFlags(c.type, c.known).ok());
    for (std::uint32_t bit = 1; bit != 0; bit <<= 1) {
      const StatusCode expected = (c.known & bit) != 0 ? StatusCode::kSuccess : c.code;
      EXPECT_EQ(CheckFlags(c.type, c.known | bit), expected) << bit;
    }
  }
  EXPECT_EQ(CheckFlags(kBind, kOpSilentSuccess), StatusCode::kInvalidParameter6) << "no right";
}

TEST(QueuePairRules, ElementsAreCountedBeforeTheirBytes) {
  const Sge large[] = {{nullptr, 0xFFFFFFFF, 0}, {nullptr, 0xFFFFFFFF, 0}};
  std::uint32_t length = 7;
  EXPECT_EQ(CheckSges(large, 1, 100, &length), StatusCode::kDataOverrun);
  EXPECT_EQ(CheckSges(large, 2, 0xFFFFFFFE, &length), StatusCode::kBufferOverflow) << "the sum wraps";
  EXPECT_EQ(length, 7u);
  const Sge small[] = {{nullptr, 60, 0}, {nullptr, 40, 0}};
  EXPECT_TRUE(CheckSges(small, 2, 100, &length).ok());
  EXPECT_EQ(length, 100u);
}

TEST(QueuePairRules, InlineDataFitsAndExists) {
  char byte = 0;
  const Sge sges[] = {{nullptr, 0, 0}, {&byte, 1, 0}}, missing[] = {{nullptr, 1, 0}};
  EXPECT_TRUE(CheckInline(sges, 1, 1).ok());
  EXPECT_EQ(CheckInline(missing, 1, 0), StatusCode::kBufferOverflow);
  EXPECT_EQ(CheckInline(missing, 1, 1), StatusCode::kAccessViolation);
}

TEST(QueuePairRules, ConnectionIsCheckedBeforeRoomAndRoomBeforeReadLimit) {
  EXPECT_EQ(CheckPostable(RequestType::kRead, false, true, 0), StatusCode::kConnectionInvalid);
  EXPECT_EQ(CheckPostable(RequestType::kRead, true, true, 0), StatusCode::kNoMoreEntries);
  EXPECT_EQ(CheckPostable(RequestType::kRead, true, false, 0), StatusCode::kInvalidDeviceRequest);
  EXPECT_TRUE(CheckPostable(RequestType::kRead, true, false, 1).ok());
  EXPECT_TRUE(CheckPostable(RequestType::kSend, true, false, 0).ok());
}

TEST(QueuePairRules, OptionsStayWithinTheLimitsOfTheAdapter) {
  AdapterInfo info;
  info.max_receive_queue_depth = info.max_initiator_queue_depth = 8;
  info.max_receive_sge = info.max_initiator_sge = 2;
  info.max_inline_data_size = 16;
  QpOptions good;
  good.receive_depth = good.initiator_depth = 8;
  good.max_receive_sge = good.max_initiator_sge = 2;
  good.inline_size = 16;
  const OwnQueues own{true, true, true};
  EXPECT_TRUE(CheckOptions(good, info, own).ok());
  const auto refused = [&](auto damage) {
    QpOptions bad = good;
    damage(bad);
    return CheckOptions(bad, info, own) == StatusCode::kInvalidParameter;
  };
  EXPECT_TRUE(refused([](QpOptions& o) { o.receive_depth = 0; }));
  EXPECT_TRUE(refused([](QpOptions& o) { o.receive_depth = 9; }));
  EXPECT_TRUE(refused([](QpOptions& o) { o.initiator_depth = 0; }));
  EXPECT_TRUE(refused([](QpOptions& o) { o.initiator_depth = 9; }));
  EXPECT_TRUE(refused([](QpOptions& o) { o.max_receive_sge = 3; }));
  EXPECT_TRUE(refused([](QpOptions& o) { o.max_initiator_sge = 3; }));
  EXPECT_TRUE(refused([](QpOptions& o) { o.inline_size = 17; }));
  for (const OwnQueues& other :
       {OwnQueues{false, true, true}, OwnQueues{true, false, true}, OwnQueues{true, true, false}}) {
    EXPECT_EQ(CheckOptions(good, info, other), StatusCode::kInvalidParameter);
  }
}

}  // namespace
}  // namespace nd::provider
