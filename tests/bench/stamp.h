// SPDX-License-Identifier: Apache-2.0
// The contents of a message, which let the receiver check that it arrived complete and in order.
//
// Bytes between the stamps follow a fixed pattern, written once; only the stamps at both ends change with the
// message's number, so that checking does not dominate what is measured.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace nd::perf {

inline std::byte PatternByte(std::size_t offset) {
  return static_cast<std::byte>((offset * 131 + 17) & 0xFF);
}

inline void FillPattern(std::byte* message, std::size_t size) {
  for (std::size_t i = 0; i < size; ++i) message[i] = PatternByte(i);
}

inline void Stamp(std::byte* message, std::size_t size, std::uint64_t number) {
  std::memcpy(message, &number, std::min<std::size_t>(size, sizeof(number)));
  if (size >= 2 * sizeof(number)) std::memcpy(message + size - sizeof(number), &number, sizeof(number));
}

// True when both stamps are present. The memory may be written by another process at the same time.
inline bool HasStamp(const std::byte* message, std::size_t size, std::uint64_t number) {
  std::atomic_signal_fence(std::memory_order_seq_cst);
  const bool ok = std::memcmp(message, &number, std::min<std::size_t>(size, sizeof(number))) == 0 &&
                  (size < 2 * sizeof(number) ||
                   std::memcmp(message + size - sizeof(number), &number, sizeof(number)) == 0);
  std::atomic_thread_fence(std::memory_order_acquire);
  return ok;
}

// True for the messages of which a measurement examines every byte. They are few: the bytes then come from
// the other core and go back to it with the next message, which a message that nobody reads does not cost.
constexpr bool IsExamined(std::uint64_t number) {
  return number % 1024 == 1;
}

// True when the stamps and all bytes between them are right.
inline bool IsWhole(const std::byte* message, std::size_t size, std::uint64_t number) {
  if (!HasStamp(message, size, number)) return false;
  static const auto pattern = [] {
    std::array<std::byte, 256> bytes;  // It repeats.
    FillPattern(bytes.data(), bytes.size());
    return bytes;
  }();
  const std::size_t stamp = sizeof(number);
  const std::size_t end = size >= 2 * stamp ? size - stamp : size;
  for (std::size_t i = stamp; i < end;) {
    const std::size_t at = i % pattern.size(), count = std::min(end - i, pattern.size() - at);
    if (std::memcmp(message + i, pattern.data() + at, count) != 0) return false;
    i += count;
  }
  return true;
}

// Reads every byte and returns a sum of them, which the caller must use.
inline std::uint64_t ReadAll(const std::byte* message, std::size_t size) {
  constexpr std::size_t kWord = sizeof(std::uint64_t);
  std::uint64_t sums[4] = {};
  std::size_t i = 0;
  for (; i + sizeof(sums) <= size; i += sizeof(sums)) {
    std::uint64_t words[4];
    std::memcpy(words, message + i, sizeof(words));
    for (std::size_t k = 0; k < 4; ++k) sums[k] += words[k];
  }
  for (; i + kWord <= size; i += kWord) {
    std::uint64_t word = 0;
    std::memcpy(&word, message + i, kWord);
    sums[0] += word;
  }
  for (; i < size; ++i) sums[0] += static_cast<std::uint64_t>(message[i]);
  return sums[0] + sums[1] + sums[2] + sums[3];
}

}  // namespace nd::perf
