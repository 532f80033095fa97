// SPDX-License-Identifier: Apache-2.0
#include "base/os/word_sleep.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <climits>
#include <ctime>

namespace nd::os {
namespace {

// The headers of Debian 12's C library do not have the number everywhere; it is the same on each
// architecture.
constexpr long kFutexWaitv = 449;
// The kernel reads 16 bytes of it as 64 and 64 bits.
struct Until {
  std::int64_t seconds, nanoseconds;
};

long Call(const futex_waitv* words, std::size_t count, const Until* until) {
  return syscall(kFutexWaitv, words, count, 0, until, CLOCK_MONOTONIC);
}

}  // namespace

bool CanSleepOnWords() {
  // A kernel that knows the call refuses no words as a wrong argument.
  static const bool can = Call(nullptr, 0, nullptr) == -1 && errno == EINVAL;
  return can;
}

void SleepOnWords(std::span<const SleptOn> words, Time until) {
  std::array<futex_waitv, kMostSleptOn> list;  // Mostly two of them are used, so only those are written.
  for (std::size_t i = 0; i < words.size(); ++i) {
    const unsigned flags = FUTEX_32 | (words[i].shared ? 0u : unsigned{FUTEX_PRIVATE_FLAG});
    list[i] = {words[i].value, reinterpret_cast<std::uintptr_t>(words[i].word), flags, 0};
  }
  const auto since = until.time_since_epoch();
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(since);
  const Until limit{seconds.count(), std::chrono::nanoseconds(since - seconds).count()};
  Call(list.data(), words.size(), &limit);
}

void WakeWord(std::atomic<std::uint32_t>& word, bool shared) {
  syscall(SYS_futex, &word, FUTEX_WAKE | (shared ? 0 : FUTEX_PRIVATE_FLAG), INT_MAX, nullptr, nullptr, 0);
}

}  // namespace nd::os
