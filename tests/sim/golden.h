// SPDX-License-Identifier: Apache-2.0
// What `ndsim --golden` printed last: the hash of a run depends on its seed alone, not on build or machine.
#pragma once

#include <cstdint>

namespace nd::sim {

struct Golden {
  std::uint64_t seed, steps, hash;
};
inline constexpr Golden kGolden[] = {
    {1, 0, 0},
};

}  // namespace nd::sim
