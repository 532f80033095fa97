// SPDX-License-Identifier: Apache-2.0
// Facts about this process and its standard streams. Any thread.
#pragma once

#include <cstdint>

namespace nd::os {

std::uint32_t ProcessNumber();
// The real user, not the effective one.
std::uint32_t UserNumber();
// The user whose rights this process has.
std::uint32_t EffectiveUserNumber();
// The real group.
std::uint32_t GroupNumber();
// The processor time of all threads so far.
double ProcessorSeconds();

enum class Stream { kInput, kOutput, kError };
// Returns true when the stream is a terminal.
bool IsTerminal(Stream stream);

}  // namespace nd::os
