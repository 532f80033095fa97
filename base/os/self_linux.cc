// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include "base/os/self.h"

namespace nd::os {

std::uint32_t ProcessNumber() {
  return static_cast<std::uint32_t>(::getpid());
}

std::uint32_t UserNumber() {
  return ::getuid();
}

bool IsTerminal(Stream stream) {
  static_assert(STDIN_FILENO == 0 && STDOUT_FILENO == 1 && STDERR_FILENO == 2);
  return ::isatty(static_cast<int>(stream)) != 0;
}

}  // namespace nd::os
