// SPDX-License-Identifier: Apache-2.0
// Everything is in parse.cc, so that tests can call it.
#include <csignal>
#include <cstdlib>

#include "cli/parse.h"

// NOLINTNEXTLINE(bugprone-exception-escape): one that nobody catches is a mistake, and should leave a core.
int main(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_IGN);        // `ndctl events | head` tells the broker goodbye.
  setenv("GRPC_VERBOSITY", "NONE", 0);  // What goes wrong is said once, by ndctl.
  return nd::cli::Main(argc, argv);
}
