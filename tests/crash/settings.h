// SPDX-License-Identifier: Apache-2.0
// Settings from the command line and the environment.
#pragma once

#include <cstdint>

namespace nd::crash {

struct Settings {
  bool full = false;        // NDBROKER_FULL=1
  std::uint32_t races = 0;  // --races N: rounds of each transport.
  std::uint32_t points =
      0;  // --points N: the number of system calls at which each victim is killed; 0 means every call.
  // --parts N and --part K: of the places in the program where a call can fail, those with number K modulo N.
  // N runs with K = 1 to N visit every place.
  std::uint32_t parts = 1, part = 1;
};
const Settings& GetSettings();

}  // namespace nd::crash
