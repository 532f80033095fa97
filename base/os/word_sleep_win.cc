// SPDX-License-Identifier: Apache-2.0
// Windows sleeps on one word only (WaitOnAddress), and only within a process.
#include "base/os/word_sleep.h"

namespace nd::os {

bool CanSleepOnWords() {
  return false;
}

void SleepOnWords(std::span<const SleptOn>, Time) {}

void WakeWord(std::atomic<std::uint32_t>&, bool) {}

}  // namespace nd::os
