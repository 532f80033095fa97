// SPDX-License-Identifier: Apache-2.0
// The last output of `ndsim --golden`: the hash of a run depends on its seed alone, not on build or machine.
// Changed last when the real TcpCm took the place of a copy: its events come through a simulated event loop,
// later and in another order, and the network has more faults.
#pragma once

#include <cstdint>

namespace nd::sim {

struct Golden {
  std::uint64_t seed, steps, hash;
};
// clang-format off
inline constexpr Golden kGolden[] = {
    {1, 1041, 0x90b5754eab70a005},
    {2, 1050, 0x5ee5d890161b016a},
    {3, 1048, 0x4d36b79117d65167},
    {4, 1018, 0x7a464be55ae9e87f},
    {5, 1043, 0xbb37f3395f214520},
    {6, 1059, 0x911046028bd339ad},
    {7, 1046, 0x5f30b47d18995b16},
    {8, 1010, 0xa27d78d68b8e3ab6},
    {9, 1005, 0xc52bd491fae6bc06},
    {10, 1033, 0xccf9738228108007},
    {11, 1090, 0x7fb23f2c946fbb63},
    {12, 1022, 0x77e6dabae6e793d1},
};
// clang-format on

}  // namespace nd::sim
