// SPDX-License-Identifier: Apache-2.0
// Of the command line and the environment.
#pragma once

#include <cstdint>

namespace nd::crash {

struct Settings {
  bool full = false;         // NDBROKER_FULL=1
  std::uint32_t races = 0;   // --races N: rounds of each transport.
  std::uint32_t points = 0;  // --points N: system calls of each victim at which it dies; 0: each.
};
const Settings& GetSettings();

}  // namespace nd::crash
