// SPDX-License-Identifier: Apache-2.0
// The parts of ndperf that a wrong number or an unnoticed corruption could come from.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/bench/result.h"
#include "tests/bench/stamp.h"

namespace nd::perf {
namespace {

TEST(Stamp, EveryByteCounts) {
  for (const std::size_t size : {1U, 7U, 8U, 15U, 16U, 17U, 64U, 4096U}) {
    std::vector<std::byte> message(size);
    FillPattern(message.data(), size);
    Stamp(message.data(), size, 0x0102030405060708);
    EXPECT_TRUE(IsWhole(message.data(), size, 0x0102030405060708));
    EXPECT_FALSE(IsWhole(message.data(), size, 0x0102030405060709)) << size;
    for (std::size_t i = 0; i < size; ++i) {
      message[i] ^= std::byte{1};
      EXPECT_FALSE(IsWhole(message.data(), size, 0x0102030405060708)) << size << " " << i;
      message[i] ^= std::byte{1};
    }
  }
}

TEST(Percentile, NearestRank) {
  std::vector<double> values;
  for (int i = 100; i >= 1; --i) values.push_back(i);
  EXPECT_EQ(50, Percentile(values, 50));
  EXPECT_EQ(99, Percentile(values, 99));
  EXPECT_EQ(100, Percentile(values, 100));
  EXPECT_EQ(7, Percentile({7}, 1));
}

TEST(Numbers, OnlyThoseThatApply) {
  Options options;
  options.op = Op::kWrite;
  options.metric = Metric::kLatency;
  options.iterations = options.window = 1;
  EXPECT_EQ(
      "{\"op\":\"write\",\"metric\":\"lat\",\"transport\":\"local\",\"size\":8,\"iterations\":1,\"window\":1,"
      "\"wait\":\"poll\",\"crc\":false,\"p50_us\":2,\"p99_us\":2}\n",
      ToJson(options, Summarize(options, {{2}, 1, 1})));
  options.metric = Metric::kBandwidth;
  options.size = 1000;
  const Numbers numbers = Summarize(options, {{}, 2, 4000000});
  EXPECT_EQ(2000000, numbers.per_s);
  EXPECT_EQ(2, numbers.gbytes_per_s);
  EXPECT_FALSE(numbers.p50_us);
}

TEST(Options, AnAdapterNamesTheMedium) {
  Options options;
  EXPECT_EQ(options.Medium(), "local");
  options.adapter = "rxe0";
  options.op = Op::kSend;
  options.metric = Metric::kLatency;
  EXPECT_NE(ToJson(options, {}).find("\"transport\":\"rxe0\""), std::string::npos);
  // Both ends of the measurement use it.
  const std::vector<std::string> arguments = options.EndArguments(Role::kServer, "/d", "", 3);
  const auto flag = std::find(arguments.begin(), arguments.end(), "--adapter");
  ASSERT_NE(flag, arguments.end());
  EXPECT_EQ(*(flag + 1), "rxe0");
}

TEST(Numbers, SurviveTheWayToTheParent) {
  const auto numbers = Decode(Encode({1.25, std::nullopt, 3e9, std::nullopt}));
  ASSERT_TRUE(numbers);
  EXPECT_EQ(1.25, numbers->p50_us);
  EXPECT_FALSE(numbers->p99_us);
  EXPECT_EQ(3e9, numbers->per_s);
  EXPECT_FALSE(Decode("result 1 2 3"));
  EXPECT_FALSE(Decode(""));
}

}  // namespace
}  // namespace nd::perf
