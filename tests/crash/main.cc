// SPDX-License-Identifier: Apache-2.0
// The test program. With --app it is the racing application, which the test starts twice.
#include <gtest/gtest.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "tests/crash/race_app.h"
#include "tests/crash/settings.h"
#include "tests/crash/table.h"
#include "tests/testing/network.h"

namespace nd::crash {
namespace {

Settings settings;

class PrintTable : public ::testing::Environment {
 public:
  void TearDown() override { Table::Get().Print(); }
};

bool Take(const std::string& name, const std::string& argument, const char* number, std::uint32_t* to) {
  if (argument != name) return false;
  char* end = nullptr;
  const unsigned long value = number == nullptr ? 0 : std::strtoul(number, &end, 10);
  if (value == 0 || *end != '\0' || value > 100'000'000) {
    std::fprintf(stderr, "nd_crash: %s needs a number from 1 to 100000000\n", name.c_str());
    std::exit(2);
  }
  *to = static_cast<std::uint32_t>(value);
  return true;
}

}  // namespace

const Settings& GetSettings() {
  return settings;
}

int Main(int argc, char** argv) {
  if (argc == 2 && std::string(argv[1]) == "--app") return RunRaceApp();
  ::testing::InitGoogleTest(&argc, argv);
  std::signal(SIGPIPE, SIG_IGN);
  const char* full = std::getenv("NDBROKER_FULL");
  settings.full = full != nullptr && std::string(full) == "1";
  settings.races = settings.full ? 10'000 : 600;
  settings.points = settings.full ? 0 : 8;
  settings.parts = settings.full ? 1 : 12;
  for (int i = 1; i < argc; ++i) {
    const char* number = i + 1 < argc ? argv[i + 1] : nullptr;
    if (Take("--races", argv[i], number, &settings.races) ||
        Take("--points", argv[i], number, &settings.points) ||
        Take("--parts", argv[i], number, &settings.parts) ||
        Take("--part", argv[i], number, &settings.part)) {
      ++i;
      continue;
    }
    std::fprintf(stderr,
                 "nd_crash: unknown argument %s\n"
                 "usage: nd_crash [--races N] [--points N] [--parts N] [--part K] [--gtest_...]\n",
                 argv[i]);
    return 2;
  }
  if (!::testing::GTEST_FLAG(list_tests)) {
    const std::string error = nd::testing::EnterPrivateNetwork();
    if (!error.empty()) {
      std::fprintf(stderr, "nd_crash: needs a network of its own: %s\n", error.c_str());
      return 77;  // ctest: skipped.
    }
  }
  ::testing::AddGlobalTestEnvironment(new PrintTable);
  return RUN_ALL_TESTS();
}

}  // namespace nd::crash

int main(int argc, char** argv) {
  return nd::crash::Main(argc, argv);
}
