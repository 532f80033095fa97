// SPDX-License-Identifier: Apache-2.0
#include "daemon/ops/process.h"

#include <span>

#include "base/os/random.h"

namespace nd::ops {

std::uint64_t RandomNumber() {
  std::uint64_t number = 0;
  os::FillWithRandom(std::as_writable_bytes(std::span(&number, 1)));
  return number;
}

}  // namespace nd::ops
