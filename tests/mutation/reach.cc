// SPDX-License-Identifier: Apache-2.0
// Linked into a test program with mutants: writes which of them each test evaluates, one line a test, into
// the file that the environment variable NDBROKER_REACH names. Only these tests can notice the mutant.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

#include "tests/mutation/mutant.h"

namespace nd::mutation {
namespace {

class Reach : public ::testing::EmptyTestEventListener {
 public:
  explicit Reach(const char* file) : out_(file) {}

 private:
  void OnTestStart(const ::testing::TestInfo&) override {
    std::fill(std::begin(reached), std::end(reached), false);
  }
  void OnTestEnd(const ::testing::TestInfo& test) override {
    out_ << test.test_suite_name() << '.' << test.name() << ' ' << test.result()->elapsed_time();
    for (int number = 0; number < kMost; ++number) {
      if (reached[number]) out_ << ' ' << number;
    }
    out_ << std::endl;
  }

  std::ofstream out_;
};

const bool listens = [] {
  if (const char* file = std::getenv("NDBROKER_REACH")) {
    ::testing::UnitTest::GetInstance()->listeners().Append(new Reach(file));
  }
  return true;
}();

}  // namespace
}  // namespace nd::mutation
