// SPDX-License-Identifier: Apache-2.0
// Facts about this process and its standard streams. Any thread.
#pragma once

#include <cstdint>

namespace nd::os {

std::uint32_t ProcessNumber();
// The real user, not the effective one.
std::uint32_t UserNumber();

enum class Stream { kInput, kOutput, kError };
// Whether a person is at the other end.
bool IsTerminal(Stream stream);

}  // namespace nd::os
