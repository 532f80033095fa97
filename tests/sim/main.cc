// SPDX-License-Identifier: Apache-2.0
// ndsim: runs simulations and prints how to reproduce a failure.
#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "tests/sim/faults.h"
#include "tests/sim/world.h"

namespace {

using nd::sim::Coverage;
using nd::sim::Outcome;
using nd::sim::World;
using nd::sim::WorldOptions;

struct Total {
  std::uint64_t seeds = 0, steps = 0, connected = 0, messages = 0, reattached = 0, crashes = 0, bytes = 0;
  std::chrono::steady_clock::time_point begun = std::chrono::steady_clock::now();

  void Add(const Outcome& outcome) {
    ++seeds;
    steps += outcome.steps;
    connected += outcome.connected;
    messages += outcome.messages;
    reattached += outcome.reattached;
    crashes += outcome.crashes;
    bytes += outcome.bytes;
  }
  void Print() const {
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
    std::printf(
        "seeds=%llu steps=%llu connected=%llu messages=%llu reattached=%llu broker-deaths=%llu bytes=%llu "
        "seconds=%.0f steps/s=%.0f\n",
        static_cast<unsigned long long>(seeds), static_cast<unsigned long long>(steps),
        static_cast<unsigned long long>(connected), static_cast<unsigned long long>(messages),
        static_cast<unsigned long long>(reattached), static_cast<unsigned long long>(crashes),
        static_cast<unsigned long long>(bytes), seconds,
        seconds > 0 ? static_cast<double>(steps) / seconds : 0);
    std::fflush(stdout);
  }
};

bool Ran(const WorldOptions& options, Coverage& coverage, Total& total) {
  const Outcome outcome = World(options, coverage).Run();
  total.Add(outcome);
  if (outcome.violation.empty()) {
    if (total.seeds == 1 || options.until != 0) {
      std::printf("seed=%llu steps=%llu hash=%016llx\n", static_cast<unsigned long long>(options.seed),
                  static_cast<unsigned long long>(outcome.steps),
                  static_cast<unsigned long long>(outcome.hash));
    }
    return true;
  }
  std::printf("%s\nviolation: %s\n%s\nhash=%016llx\n", outcome.tail.c_str(), outcome.violation.c_str(),
              outcome.line.c_str(), static_cast<unsigned long long>(outcome.hash));
  return false;
}

// Parses "A..B", or one number.
bool ParseRange(const std::string& text, std::uint64_t* first, std::uint64_t* last) {
  const std::size_t dots = text.find("..");
  char* end = nullptr;
  *first = std::strtoull(text.c_str(), &end, 10);
  if (end == text.c_str() || (dots == std::string::npos ? *end != 0 : end != text.c_str() + dots))
    return false;
  if (dots == std::string::npos) {
    *last = *first;
    return true;
  }
  const char* const from = text.c_str() + dots + 2;
  *last = std::strtoull(from, &end, 10);
  return end != from && *end == 0 && *first <= *last;
}

}  // namespace

// NOLINTNEXTLINE(bugprone-exception-escape): an uncaught exception is a bug and should leave a core file.
int main(int argc, char** argv) {
  CLI::App app("Simulates hosts with brokers, applications and foreign peers, and checks every step.");
  WorldOptions options;
  std::string seeds;
  double hours = 0;
  bool table = false, list = false, golden = false;
  std::vector<std::string> mistakes;
  app.add_option("--seed", options.seed, "The world to run")->capture_default_str();
  app.add_option("--seeds", seeds, "Run the worlds A..B");
  app.add_option("--steps", options.steps, "Steps of each world before it winds down")->capture_default_str();
  app.add_option("--until", options.until, "Stop at this step");
  app.add_option("--hours", hours, "Run new worlds for so long, starting with --seed");
  app.add_flag("--trace", options.trace, "Print every event and action");
  app.add_flag("--coverage", table, "Print what was reached");
  app.add_option("--mistake", mistakes, "Switch on a mistake of the harness (repeatable)");
  app.add_flag("--mistakes", list, "List the mistakes");
  app.add_flag("--golden", golden, "Print the table of golden.h as it is now");
  CLI11_PARSE(app, argc, argv);
  if (list) {
    for (const nd::sim::Mistake& mistake : nd::sim::kMistakes) {
      std::printf("%-24s %s\n", std::string(mistake.name).c_str(), std::string(mistake.what).c_str());
    }
    return 0;
  }
  for (const std::string& name : mistakes) {
    bool known = false;
    for (const nd::sim::Mistake& mistake : nd::sim::kMistakes) known = known || mistake.name == name;
    if (!known) {
      std::fprintf(stderr, "There is no mistake '%s'; --mistakes lists them.\n", name.c_str());
      return 2;
    }
    options.mistakes.insert(name);
  }
  if (golden) {
    for (options.seed = 1; options.seed <= 12; ++options.seed) {
      Coverage unused;
      const Outcome outcome = World(options, unused).Run();
      std::printf("    {%llu, %llu, 0x%016llx},\n", static_cast<unsigned long long>(options.seed),
                  static_cast<unsigned long long>(outcome.steps),
                  static_cast<unsigned long long>(outcome.hash));
    }
    return 0;
  }
  std::uint64_t first = options.seed, last = options.seed;
  if (!seeds.empty() && !ParseRange(seeds, &first, &last)) {
    std::fprintf(stderr, "--seeds needs a range like 1..1000, not '%s'.\n", seeds.c_str());
    return 2;
  }
  Coverage coverage;
  Total total;
  bool good = true;
  if (hours > 0) {
    const auto end = total.begun + std::chrono::duration_cast<std::chrono::steady_clock::duration>(
                                       std::chrono::duration<double>(hours * 3600));
    auto next_line = total.begun + std::chrono::seconds(30);
    for (options.seed = first; good && std::chrono::steady_clock::now() < end; ++options.seed) {
      good = Ran(options, coverage, total);
      if (std::chrono::steady_clock::now() < next_line) continue;
      total.Print();
      next_line += std::chrono::seconds(30);
    }
  } else {
    for (options.seed = first; good && options.seed <= last; ++options.seed) {
      good = Ran(options, coverage, total);
    }
  }
  total.Print();
  if (table) std::printf("%s", coverage.Table().c_str());
  return good ? 0 : 1;
}
