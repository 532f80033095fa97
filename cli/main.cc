// SPDX-License-Identifier: Apache-2.0
// The program is in parse.cc, so that tests can call it.
#include "cli/console.h"
#include "cli/parse.h"

// NOLINTNEXTLINE(bugprone-exception-escape): an exception that is not caught is a bug and should leave a
// core.
int main(int argc, char** argv) {
  nd::cli::Console console(argc, argv);
  return console.End(nd::cli::Main(console.argc(), console.argv()));
}
