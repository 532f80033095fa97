// SPDX-License-Identifier: Apache-2.0
#include <sys/resource.h>
#include <unistd.h>

#include "base/os/self.h"

namespace nd::os {

std::uint32_t ProcessNumber() {
  return static_cast<std::uint32_t>(::getpid());
}

std::uint32_t UserNumber() {
  return ::getuid();
}

std::uint32_t EffectiveUserNumber() {
  return ::geteuid();
}

std::uint32_t GroupNumber() {
  return ::getgid();
}

double ProcessorSeconds() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) / 1e6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

bool IsTerminal(Stream stream) {
  static_assert(STDIN_FILENO == 0 && STDOUT_FILENO == 1 && STDERR_FILENO == 2);
  return ::isatty(static_cast<int>(stream)) != 0;
}

}  // namespace nd::os
