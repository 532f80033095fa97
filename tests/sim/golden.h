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
    {1, 1072, 0x2aca5df1203359ac},
    {2, 1031, 0x4c3870a6c14eebf4},
    {3, 1066, 0x2971e2233d454b8d},
    {4, 1011, 0x1e60f3996d7a002c},
    {5, 1037, 0x3482d970ad441863},
    {6, 1066, 0xd880bdbbdc2d7c11},
    {7, 1035, 0x174598fc45fd6bb9},
    {8, 1025, 0x826fbd159d927e7b},
    {9, 1039, 0x1554d7dec082ce27},
    {10, 1035, 0xb03f27bfcd11ac35},
    {11, 1048, 0x1442e47e4e104b62},
    {12, 1019, 0x4dda5c1ba1b5e78f},
};
// clang-format on

}  // namespace nd::sim
