// SPDX-License-Identifier: Apache-2.0
// Captures both streams of one run.
#include "cli/testing/run_ndctl.h"

#include <gtest/gtest.h>

#include "cli/parse.h"

namespace nd::cli {

Ran Ndctl(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "ndctl");
  std::vector<const char*> argv;
  for (const std::string& argument : arguments) argv.push_back(argument.c_str());
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  Ran ran;
  ran.exit = Main(static_cast<int>(argv.size()), argv.data());
  ran.out = testing::internal::GetCapturedStdout();
  ran.err = testing::internal::GetCapturedStderr();
  return ran;
}

}  // namespace nd::cli
