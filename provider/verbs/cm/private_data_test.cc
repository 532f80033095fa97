// SPDX-License-Identifier: Apache-2.0
#include "provider/verbs/cm/private_data.h"

#include <gtest/gtest.h>

#include "provider/verbs/device_limits.h"

namespace nd::provider::verbs {
namespace {

Data Pattern(std::size_t size) {
  Data data(size);
  for (std::size_t i = 0; i < size; ++i) data[i] = static_cast<std::uint8_t>(i * 37 + 1);
  return data;
}

TEST(PrivateData, EveryLengthIsExactBetweenBrokers) {
  for (const auto& [field, limit] : {std::pair{Field::kRequest, kIbCallerData},
                                     {Field::kReply, kIbCalleeData},
                                     {Field::kRefusal, kIbCalleeData}}) {
    for (std::size_t n = 0; n <= limit; ++n) {
      const Data wire = PackPrivateData(false, field, Pattern(n));
      ASSERT_EQ(wire.size(), static_cast<std::size_t>(field));
      EXPECT_EQ(UnpackPrivateData(false, wire), Pattern(n)) << n;
    }
  }
}

TEST(PrivateData, TrailingZerosAreData) {
  const Data data{1, 0, 0, 0};
  EXPECT_EQ(UnpackPrivateData(false, PackPrivateData(false, Field::kRequest, data)), data);
}

TEST(PrivateData, IwarpIsVerbatim) {
  for (std::size_t n : {0u, 1u, 56u, 251u}) {
    EXPECT_EQ(PackPrivateData(true, Field::kRequest, Pattern(n)), Pattern(n));
    EXPECT_EQ(UnpackPrivateData(true, Pattern(n)), Pattern(n));
  }
}

TEST(PrivateData, ForeignFieldsAreReportedWhole) {
  Data padded = Pattern(10);
  padded.resize(56);
  EXPECT_EQ(UnpackPrivateData(false, padded), padded);
  EXPECT_EQ(UnpackPrivateData(false, Pattern(56)), Pattern(56));
  EXPECT_TRUE(UnpackPrivateData(false, {}).empty());
  EXPECT_EQ(UnpackPrivateData(false, Data{0xBD}), Data{0xBD});
}

TEST(PrivateData, TrailerWithAWrongLengthIsData) {
  Data field = PackPrivateData(false, Field::kRequest, Pattern(20));
  field.back() = 55;  // Longer than the field.
  EXPECT_EQ(UnpackPrivateData(false, field), field);
  field.back() = 10;  // Data behind the length.
  EXPECT_EQ(UnpackPrivateData(false, field), field);
}

TEST(PrivateData, RefusalByABrokerCarriesItsDetail) {
  for (const Detail detail : {Detail::kNoListener, Detail::kBacklogFull, Detail::kPaused,
                              Detail::kListenerClosed, Detail::kPolicy, Detail::kStaleConnection}) {
    EXPECT_EQ(RefusalDetail(RefusalBy(detail)), detail);
    EXPECT_EQ(
        RefusalDetail(UnpackPrivateData(false, PackPrivateData(false, Field::kRefusal, RefusalBy(detail)))),
        detail);
  }
  EXPECT_EQ(RefusalDetail(Data{'N', 'D', 0xBD, 0}), Detail::kNone);
  EXPECT_EQ(RefusalDetail(Data{'N', 'D', 0xBD, 200}), Detail::kNone);
  EXPECT_EQ(RefusalDetail(Data{'N', 'D', 0xBD}), Detail::kNone);
  EXPECT_EQ(RefusalDetail(Data{'N', 'D', 0xBD, 2, 0}), Detail::kNone);
}

}  // namespace
}  // namespace nd::provider::verbs
