// SPDX-License-Identifier: Apache-2.0
// For tests: facts about this process that product code does not need.
#pragma once

#include <cstdint>
#include <set>
#include <utility>

namespace nd::provider::soft {

int CurrentProcessor();
bool PinThisThread(int processor);

// The open files and descriptors, with multiplicity: a pair of numbers for each.
std::multiset<std::pair<std::uint64_t, std::uint64_t>> OpenDescriptors();

}  // namespace nd::provider::soft
