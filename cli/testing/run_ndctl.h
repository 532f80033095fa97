// SPDX-License-Identifier: Apache-2.0
// ndctl in this process, with what it wrote.
#pragma once

#include <string>
#include <vector>

namespace nd::cli {

struct Ran {
  int exit;
  std::string out, err;
};

Ran Ndctl(std::vector<std::string> arguments);

}  // namespace nd::cli
