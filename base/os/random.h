// SPDX-License-Identifier: Apache-2.0
// Numbers that nobody can predict. Any thread.
#pragma once

#include <cstddef>
#include <span>

namespace nd::os {

// Fills `out` from the generator of the system. Ends the program when there is none: tokens, keys and memory
// tokens must not be predictable.
void FillWithRandom(std::span<std::byte> out);

}  // namespace nd::os
