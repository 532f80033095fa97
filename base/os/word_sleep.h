// SPDX-License-Identifier: Apache-2.0
// Sleep until words of memory are woken. It costs one system call at either end, where a descriptor costs a
// third one to read it. Any thread.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/clock.h"

namespace nd::os {

struct SleptOn {
  std::atomic<std::uint32_t>* word = nullptr;
  std::uint32_t value = 0;  // Nobody sleeps while the word has another one.
  bool shared = false;      // Another process wakes it.
};

// False: the system has no such sleep. Linux has it from 5.16 on.
bool CanSleepOnWords();

inline constexpr std::size_t kMostSleptOn = 64;
// Returns when one of the words is woken, at `until`, and for no reason. At most kMostSleptOn words. Call it
// only where CanSleepOnWords().
void SleepOnWords(std::span<const SleptOn> words, Time until);

// Wakes all that sleep on the word, in each process if `shared`. A sleeper that comes later looks at the
// value, so it is changed before.
void WakeWord(std::atomic<std::uint32_t>& word, bool shared);

}  // namespace nd::os
