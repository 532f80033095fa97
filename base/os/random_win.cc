// SPDX-License-Identifier: Apache-2.0
#include "base/os/random.h"

#include <windows.h>

#include <bcrypt.h>

#include <cstdio>
#include <cstdlib>

namespace nd::os {

void FillWithRandom(std::span<std::byte> out) {
  if (::BCryptGenRandom(nullptr, reinterpret_cast<unsigned char*>(out.data()), static_cast<ULONG>(out.size()),
                        BCRYPT_USE_SYSTEM_PREFERRED_RNG) == 0)
    return;
  std::fputs("BCryptGenRandom failed; tokens would not be secret\n", stderr);
  std::abort();
}

}  // namespace nd::os
