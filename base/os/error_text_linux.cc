// SPDX-License-Identifier: Apache-2.0
#include "base/os/error_text.h"

#include <cstring>

namespace nd::os {

std::string ErrorText(int error) {
  return std::strerror(error);
}

}  // namespace nd::os
