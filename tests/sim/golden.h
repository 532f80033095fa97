// SPDX-License-Identifier: Apache-2.0
// The last output of `ndsim --golden`: the hash of a run depends on its seed alone, not on build or machine.
#pragma once

#include <cstdint>

namespace nd::sim {

struct Golden {
  std::uint64_t seed, steps, hash;
};
// clang-format off
inline constexpr Golden kGolden[] = {
    {1, 1027, 0x024524a0cc7b6604},
    {2, 1033, 0xe6d24821e3ef00f1},
    {3, 1069, 0xe26e7e0c0d8b1f3a},
    {4, 1027, 0xd127de5f3be39d2b},
    {5, 1041, 0xad7a871d408e0e3d},
    {6, 1026, 0x9d7dfad8082e1585},
    {7, 1016, 0x1d67a184ff9d74b0},
    {8, 1019, 0x671a88e92621972c},
    {9, 1023, 0x19524e5f1b9544e7},
    {10, 1033, 0xb9c39ad8ddf27089},
    {11, 1042, 0x33fa22cdd7fd6ede},
    {12, 1050, 0x547effed905667de},
};
// clang-format on

}  // namespace nd::sim
