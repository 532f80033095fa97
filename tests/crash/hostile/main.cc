// SPDX-License-Identifier: Apache-2.0
// PROGRAM [--short] [--only PART] [--factor N] [--connects N] [--seconds N] [--loop-first] [--stalls] |
// --list
#include <grp.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "tests/crash/hostile/arena.h"
#include "tests/testing/network.h"

namespace nd::hostile {
namespace {

void Say(const std::string& line) {
  const std::string text = line + "\n";
  [[maybe_unused]] const ssize_t written = ::write(3, text.data(), text.size());
}

int Attacker(char** argv) {
  for (const Attack& attack : Attacks()) {
    if (std::strcmp(attack.name, argv[2]) != 0) continue;
    attack.run({argv[3], std::atoi(argv[4]), std::atoi(argv[5])});
    return 1;
  }
  return 2;
}

int Usage(const char* program) {
  std::fprintf(stderr,
               "usage: %s [--short] [--only PART] [--factor N] [--connects N] [--seconds N]\n"
               "       [--loop-first] [--stalls]\n"
               "       %s --list\n"
               "  --short       few connections, and each attack once; judges states only\n"
               "  --only PART   the attacks whose name contains PART\n"
               "  --factor N    N times the processes of each attack\n"
               "  --connects N  connections of the honest tenant for each measurement\n"
               "  --seconds N   each attack lasts at least that long; the last measurement is printed\n"
               "  --loop-first  the kernel runs the broker's loop on a processor of its own before every "
               "other thread, so that its\n"
               "                longest round is work of the broker and not waiting for a processor\n"
               "  --stalls      a fault when an attack makes a round more than 5 ms longer than without it\n",
               program, program);
  return 2;
}

}  // namespace

void Underway() {
  static std::atomic<bool> told{false};
  if (!told.exchange(true)) Say("UNDERWAY");
}
void Broken(const std::string& what) {
  Say(what);
}
int ForkWithMe() {
  const pid_t parent = ::getpid();
  const pid_t child = ::fork();
  if (child == 0 && (::prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || ::getppid() != parent)) ::_exit(0);
  return child;
}

int Main(int argc, char** argv, bool peers) {
  std::signal(SIGPIPE, SIG_IGN);
  if (argc == 6 && std::strcmp(argv[1], "--attack") == 0) return Attacker(argv);
  Scale scale;
  scale.connects = 400;
  std::string only;
  for (int i = 1; i < argc; ++i) {
    const std::string option = argv[i];
    const char* value = i + 1 < argc ? argv[i + 1] : nullptr;
    const auto number = [&](int* to) {
      *to = value == nullptr ? 0 : std::atoi(value);
      ++i;
      return *to > 0 && *to <= 100'000;
    };
    if (option == "--list") {
      for (const Attack& attack : Attacks()) std::puts(attack.name);
      return 0;
    }
    if (option == "--short")
      scale.connects = 12, scale.brief = true;
    else if (option == "--loop-first")
      scale.loop_first = true;
    else if (option == "--stalls")
      scale.stalls = true;
    else if (option == "--only" && value != nullptr)
      only = argv[++i];
    else if (option == "--factor" && number(&scale.factor))
      continue;
    else if (option == "--connects" && number(&scale.connects))
      continue;
    else if (option == "--seconds" && number(&scale.seconds))
      continue;
    else
      return Usage(argv[0]);
  }
  const std::string error = testing::EnterPrivateNetwork();
  if (!error.empty()) {
    std::fprintf(stderr, "%s: needs a network of its own: %s\n", argv[0], error.c_str());
    return 77;  // ctest: skipped.
  }
  Arena arena(scale, peers);
  if (!arena.error().empty()) {
    std::fprintf(stderr, "%s: %s\n", argv[0], arena.error().c_str());
    return 2;
  }
  std::vector<std::string> faults;
  const auto add = [&faults](std::vector<std::string> more) {
    faults.insert(faults.end(), more.begin(), more.end());
  };
  Arena::PrintHeading();
  std::vector<Attack> row;
  for (const Attack& attack : Attacks()) {
    if (std::string(attack.name).find(only) != std::string::npos) row.push_back(attack);
  }
  if (row.empty()) {
    std::fprintf(stderr, "%s: no attack has '%s' in its name; --list prints them\n", argv[0], only.c_str());
    return 2;
  }
  for (const Attack& attack : row) add(arena.Run(attack));
  if (row.size() > 1) add(arena.RunAll(row));
  arena.PrintSummary();
  for (const std::string& fault : faults) std::printf("FAULT %s\n", fault.c_str());
  std::printf("%zu attacks, %zu faults\n", row.size(), faults.size());
  return faults.empty() ? 0 : 1;
}

}  // namespace nd::hostile
