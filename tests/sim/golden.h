// SPDX-License-Identifier: Apache-2.0
// What `ndsim --golden` printed last: the hash of a run depends on its seed alone, not on build or machine.
#pragma once

#include <cstdint>

namespace nd::sim {

struct Golden {
  std::uint64_t seed, steps, hash;
};
// clang-format off
inline constexpr Golden kGolden[] = {
    {1, 1029, 0x3392e98fadd1208c},
    {2, 1032, 0xf9620c96a231b20f},
    {3, 1075, 0x8733b0c635ee4861},
    {4, 1021, 0x0ccfde6dd453ac2f},
    {5, 1014, 0x7c37372aa5d74ae7},
    {6, 1031, 0x879f878cbd83995b},
    {7, 1045, 0xea6506a7bef370e3},
    {8, 1022, 0x83496933544f968b},
    {9, 1028, 0x894614d88d4dd913},
    {10, 1040, 0xbc1dc16f2adf6750},
    {11, 1054, 0xe622427a716a620a},
    {12, 1028, 0x69b0cceaec49f46e},
};
// clang-format on

}  // namespace nd::sim
