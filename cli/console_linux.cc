// SPDX-License-Identifier: Apache-2.0
#include "cli/console.h"

#include <csignal>
#include <cstdlib>

namespace nd::cli {

Console::Console(int argc, char** argv) : arguments_(argv, argv + argc + 1) {
  std::signal(SIGPIPE, SIG_IGN);        // `ndctl events | head` ends the stream properly.
  setenv("GRPC_VERBOSITY", "NONE", 0);  // ndctl reports errors itself.
}

Console::~Console() = default;

int Console::End(int status) {
  return status;
}

}  // namespace nd::cli
