// SPDX-License-Identifier: Apache-2.0
#include "daemon/start.h"

namespace nd {

int StartProgram(int argc, char** argv, int (*program)(int argc, char** argv)) {
  return program(argc, argv);
}

}  // namespace nd
