// SPDX-License-Identifier: Apache-2.0
// Tests the parts of ndperf whose errors would give wrong numbers or hide corruption.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "tests/bench/measure.h"
#include "tests/bench/result.h"
#include "tests/bench/stamp.h"

namespace nd::perf {
namespace {

TEST(Stamp, EveryByteCounts) {
  for (const std::size_t size : {1U, 7U, 8U, 15U, 16U, 17U, 64U, 265U, 4096U}) {
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

TEST(Numbers, OnlyApplicableOnesArePrinted) {
  Options options;
  options.op = Op::kWrite;
  options.metric = Metric::kLatency;
  options.iterations = options.window = 1;
  EXPECT_EQ(
      "{\"op\":\"write\",\"metric\":\"lat\",\"transport\":\"local\",\"size\":8,\"iterations\":1,\"window\":1,"
      "\"wait\":\"poll\",\"crc\":false,\"p50_us\":2,\"p99_us\":2,\"p99_9_us\":2,\"p99_99_us\":2}\n",
      ToJson(options, Summarize(options, {{2}, 1, 1, {}})));
  options.metric = Metric::kBandwidth;
  options.size = 1000;
  const Numbers numbers = Summarize(options, {{}, 2, 4000000, {}});
  EXPECT_EQ(2000000, numbers.per_s);
  EXPECT_EQ(2, numbers.gbytes_per_s);
  EXPECT_FALSE(numbers.p50_us);
}

TEST(Numbers, TheMedianOfShortPeriodsIsTheRate) {
  Options options;
  options.metric = Metric::kRate;
  // One period without the CPU does not count.
  EXPECT_EQ(100, Summarize(options, {{}, 10, 500, {100, 99, 1, 101, 100}}).per_s);
  // Too few periods: the whole run.
  EXPECT_EQ(50, Summarize(options, {{}, 10, 500, {100, 99}}).per_s);
}

TEST(Meter, WarmUpCountsNeitherAsTimeNorAsRequests) {
  Options options;
  options.metric = Metric::kRate;
  options.warmup = 30;  // Ticks come at groups of 8, so none is at 30.
  Sample sample;
  Meter meter(options, &sample);
  const Stopwatch whole;
  std::this_thread::sleep_for(std::chrono::milliseconds(200));  // The slow beginning.
  for (const std::uint32_t posted : {0u, 8u, 16u, 24u, 32u, 40u}) meter.Tick(posted);
  meter.End(300);
  EXPECT_LT(sample.seconds + 0.1, whole.Microseconds() / 1e6);
  EXPECT_EQ(276u, sample.operations);
  EXPECT_TRUE(sample.window_rates.empty());
}

TEST(Meter, LooksAtTheClockAfterEvery16thTick) {
  Options options;
  options.metric = Metric::kRate;
  Sample sample;
  Meter meter(options, &sample);
  const Stopwatch whole;
  meter.Tick(0);
  std::this_thread::sleep_for(std::chrono::milliseconds(10));
  for (std::uint32_t posted = 1; posted <= 31; ++posted) meter.Tick(posted);
  ASSERT_EQ(1u, sample.window_rates.size());
  EXPECT_GE(sample.window_rates[0] * whole.Microseconds() / 1e6, 16);
}

TEST(LatencyClock, ABatchIsOneValueAndTheWarmUpIsNone) {
  Options options;
  options.warmup = 3;
  options.batch = 4;
  Sample sample;
  LatencyClock clock(options, 2, &sample);
  for (std::uint32_t i = 0; i < 3 + 4 + 4 + 2; ++i) {
    clock.Begin(i);
    if (i == 4) std::this_thread::sleep_for(std::chrono::milliseconds(80));
    clock.End(i);
  }
  ASSERT_EQ(2U, sample.latencies_us.size());  // The last two messages are not a batch.
  EXPECT_GE(sample.latencies_us[0], 80e3 / 4 / 2);
}

TEST(Stamp, EveryByteIsRead) {
  for (const std::size_t size : {1U, 8U, 31U, 32U, 43U, 4096U}) {
    std::vector<std::byte> message(size);
    for (std::size_t i = 0; i < size; ++i) {
      EXPECT_EQ(0U, ReadAll(message.data(), size));
      message[i] = std::byte{1};
      EXPECT_NE(0U, ReadAll(message.data(), size)) << size << " " << i;
      message[i] = std::byte{0};
    }
  }
}

TEST(Histogram, CountsEachValueOnce) {
  const auto histogram = Histogram({1, 1.1, 1.4, 2, 100});
  ASSERT_EQ(4u, histogram.size());
  EXPECT_EQ(std::pair(1.0, std::uint64_t{1}), histogram[0]);
  EXPECT_EQ(2u, histogram[1].second);
  EXPECT_DOUBLE_EQ(2, histogram[2].first);
  EXPECT_EQ(1u, histogram[3].second);
}

TEST(Options, TheDefaultWindowStaysInTheCache) {
  const auto window = [](const char* transport, const char* size) {
    const char* arguments[] = {"ndperf",   "--self", "--transport", transport,
                               "--metric", "bw",     "--size",      size};
    Options options;
    EXPECT_FALSE(Parse(8, const_cast<char**>(arguments), &options));
    return options.window;
  };
  EXPECT_EQ(64u, window("local", "8"));
  EXPECT_EQ(2u, window("local", "65536"));
  EXPECT_EQ(4u, window("iwarp", "65536"));
  EXPECT_EQ(1u, window("local", "1048576"));
  EXPECT_EQ(2u, window("iwarp", "1048576"));
}

TEST(Options, CpusAreThoseOfTheProcesses) {
  const char* arguments[] = {"ndperf", "--self", "--cpus", "1,0,1"};
  Options options;
  EXPECT_FALSE(Parse(4, const_cast<char**>(arguments), &options));
  EXPECT_EQ(1, options.Cpu(0));
  EXPECT_EQ(0, options.Cpu(1));
  EXPECT_EQ(1, options.Cpu(2));
  EXPECT_FALSE(options.Cpu(3));
}

TEST(Options, AdapterNamesTheMedium) {
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

TEST(Numbers, SurviveEncodingForTheParent) {
  Numbers sent;
  sent.p50_us = 1.25;
  sent.per_s = 3e9;
  sent.histogram = {{1.5, 7}, {3, 1}};
  const auto numbers = Decode(Encode(sent));
  ASSERT_TRUE(numbers);
  EXPECT_EQ(1.25, numbers->p50_us);
  EXPECT_FALSE(numbers->p99_us);
  EXPECT_EQ(3e9, numbers->per_s);
  EXPECT_EQ(sent.histogram, numbers->histogram);
  EXPECT_FALSE(Decode("result 1 2 3"));
  EXPECT_FALSE(Decode(""));
}

}  // namespace
}  // namespace nd::perf
