// SPDX-License-Identifier: Apache-2.0
// The test program. With --app it is the application, which the test starts twice.
#include <gtest/gtest.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "tests/integrity/app.h"
#include "tests/integrity/world.h"
#include "tests/testing/network.h"

namespace nd::integrity {
namespace {

Settings settings;

class ForgetWorlds : public ::testing::Environment {
 public:
  void TearDown() override { World::Forget(); }
};

// Takes one of our options with its amount; ends the program when the amount is malformed.
bool Take(const std::string& name, const std::string& argument, const char* amount, std::uint64_t* to) {
  if (argument != name) return false;
  *to = amount == nullptr ? 0 : ParseAmount(amount);
  if (*to == 0) {
    std::fprintf(stderr,
                 "nd_integrity: %s needs a number of at least 1, with K, M or G behind it or nothing\n",
                 name.c_str());
    std::exit(2);
  }
  return true;
}

}  // namespace

const Settings& GetSettings() {
  return settings;
}

int Main(int argc, char** argv) {
  if (argc == 2 && std::string(argv[1]) == "--app") return RunApp();
  ::testing::InitGoogleTest(&argc, argv);
  std::signal(SIGPIPE, SIG_IGN);
  const char* full = std::getenv("NDBROKER_FULL");
  settings.full = full != nullptr && std::string(full) == "1";
  settings.bytes = settings.full ? std::uint64_t{10} << 30 : std::uint64_t{192} << 20;
  settings.rounds = settings.full ? 1'000'000 : 10'000;
  settings.flips = settings.full ? 10'000 : 2'000;
  settings.frames = settings.full ? 1'000'000 : 50'000;
  for (int i = 1; i < argc; ++i) {
    const char* amount = i + 1 < argc ? argv[i + 1] : nullptr;
    if (Take("--bytes", argv[i], amount, &settings.bytes) ||
        Take("--rounds", argv[i], amount, &settings.rounds) ||
        Take("--flips", argv[i], amount, &settings.flips) ||
        Take("--frames", argv[i], amount, &settings.frames)) {
      ++i;
      continue;
    }
    std::fprintf(
        stderr,
        "nd_integrity: unknown argument %s\n"
        "usage: nd_integrity [--bytes N[K|M|G]] [--rounds N] [--flips N] [--frames N] [--gtest_...]\n",
        argv[i]);
    return 2;
  }
  if (!::testing::GTEST_FLAG(list_tests)) {
    const std::string error = nd::testing::EnterPrivateNetwork();
    if (!error.empty()) {
      std::fprintf(stderr, "nd_integrity: no private network (%s); tests that need one are skipped\n",
                   error.c_str());
    }
  }
  ::testing::AddGlobalTestEnvironment(new ForgetWorlds);
  return RUN_ALL_TESTS();
}

}  // namespace nd::integrity

int main(int argc, char** argv) {
  return nd::integrity::Main(argc, argv);
}
