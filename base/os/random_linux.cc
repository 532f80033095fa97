// SPDX-License-Identifier: Apache-2.0
#include "base/os/random.h"

#include <sys/random.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>

namespace nd::os {

void FillWithRandom(std::span<std::byte> out) {
  while (!out.empty()) {
    const ssize_t n = ::getrandom(out.data(), out.size(), 0);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) {
      std::fputs("getrandom failed; tokens would not be secret\n", stderr);
      std::abort();
    }
    out = out.subspan(static_cast<std::size_t>(n));
  }
}

}  // namespace nd::os
