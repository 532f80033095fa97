// SPDX-License-Identifier: Apache-2.0
// The program is in parse.cc, so that tests can call it.
#include <csignal>
#include <cstdlib>

#include "cli/parse.h"

// NOLINTNEXTLINE(bugprone-exception-escape): an exception that is not caught is a bug and should leave a
// core.
int main(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_IGN);        // `ndctl events | head` ends the stream properly.
  setenv("GRPC_VERBOSITY", "NONE", 0);  // ndctl reports errors itself.
  return nd::cli::Main(argc, argv);
}
