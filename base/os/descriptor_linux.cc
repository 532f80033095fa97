// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <sys/stat.h>

#include "base/os/descriptor.h"

namespace nd::os {

UniqueFd Duplicate(int fd) {
  return UniqueFd(::fcntl(fd, F_DUPFD_CLOEXEC, 0));
}

void SetNonBlocking(int fd) {
  ::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) | O_NONBLOCK);
}

std::optional<MemoryNumber> NumberOf(int fd) {
  struct stat facts;
  if (::fstat(fd, &facts) != 0) return std::nullopt;
  return MemoryNumber(facts.st_dev, facts.st_ino);
}

}  // namespace nd::os
