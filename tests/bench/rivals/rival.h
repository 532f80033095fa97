// SPDX-License-Identifier: Apache-2.0
// Programs of other libraries, for figures that their own tools do not print. run.sh compiles them when the
// libraries are installed; the build does not know them. Each prints figures as nd_floors does.
#pragma once

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "tests/bench/floors/tools.h"

namespace nd::rivals {

using floors::Must;
using floors::Now;
using floors::Peer;
using floors::Plan;
using floors::Share;

// The command line: WHAT SIZE CPU,PEER-CPU MILLISECONDS [WORD]
struct Arguments {
  std::string what, word;
  Plan plan;
};

inline Arguments ParseArguments(int argc, char** argv) {
  Arguments arguments;
  if (argc < 5 || std::sscanf(argv[3], "%d,%d", &arguments.plan.cpu, &arguments.plan.peer_cpu) != 2) {
    std::fprintf(stderr, "usage: %s WHAT SIZE CPU,PEER-CPU MILLISECONDS [WORD]\n", argv[0]);
    std::exit(2);
  }
  arguments.what = argv[1];
  arguments.plan.size = std::strtoull(argv[2], nullptr, 10);
  arguments.plan.seconds = std::strtod(argv[4], nullptr) / 1e3;
  if (argc > 5) arguments.word = argv[5];
  return arguments;
}

inline void Print(double value, const char* unit) {
  std::printf("%.6g %s\n", value, unit);
}

[[noreturn]] inline void Fail(const char* what, const char* why) {
  std::fprintf(stderr, "%s: %s\n", what, why);
  std::fflush(stdout);
  _exit(1);
}

}  // namespace nd::rivals
