// SPDX-License-Identifier: Apache-2.0
#include "provider/verbs/qp/maker.h"

#include <gtest/gtest.h>

#include <vector>

namespace nd::provider::verbs {
namespace {

TEST(Maker, FunctionsRunOnOneThreadOneAtATime) {
  Maker maker;
  int at_once = 0, done = 0;  // Touched by the maker's thread only.
  std::vector<std::thread::id> ids;
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] {
      for (int round = 0; round < 50; ++round) {
        bool ran = false;
        maker.Run([&] {
          EXPECT_EQ(++at_once, 1);
          ids.push_back(std::this_thread::get_id());
          ++done;
          ran = true;
          --at_once;
        });
        EXPECT_TRUE(ran);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  maker.Run([&] {
    EXPECT_EQ(done, 400);
    for (const std::thread::id id : ids) EXPECT_EQ(id, std::this_thread::get_id());
  });
}

}  // namespace
}  // namespace nd::provider::verbs
