// SPDX-License-Identifier: Apache-2.0
// Shared parts of the fuzz targets: dissecting an input, and reporting a violated property.
//
// A target is LLVMFuzzerTestOneInput(), and LLVMFuzzerCustomMutator() where plain byte mutations are not
// effective. It is linked with libFuzzer (-DNDBROKER_FUZZ=ON) or with replay_main.cc, by any compiler.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <vector>

extern "C" {
int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);
// A function of libFuzzer or of replay_main.cc: mutates in place, returns the new size.
std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t max_size);
}

namespace nd::fuzz {

// Ends the process like a crash when a property is violated, also with NDEBUG.
inline void Require(bool holds, const char* property, const char* file = __builtin_FILE(),
                    int line = __builtin_LINE()) {
  if (holds) [[likely]]
    return;
  std::fprintf(stderr, "%s:%d: property broken: %s\n", file, line, property);
  std::abort();
}

// Takes bytes from the front; beyond the end they are zeros.
class Input {
 public:
  Input(const std::uint8_t* data, std::size_t size) : rest_(data, size) {}

  bool empty() const { return rest_.empty(); }
  std::span<const std::uint8_t> rest() const { return rest_; }
  std::span<const std::uint8_t> Take(std::size_t size) {
    const auto taken = rest_.first(std::min(size, rest_.size()));
    rest_ = rest_.subspan(taken.size());
    return taken;
  }
  template <typename T = std::uint8_t>
  T Number() {  // Little-endian.
    std::uint64_t value = 0;
    unsigned shift = 0;
    for (const std::uint8_t byte : Take(sizeof(T))) {
      value |= std::uint64_t{byte} << shift;
      shift += 8;
    }
    return static_cast<T>(value);
  }

 private:
  std::span<const std::uint8_t> rest_;
};

// Copies to an allocation of the exact size, so that the sanitizer detects a read beyond the end.
inline std::vector<std::byte> Exact(std::span<const std::uint8_t> bytes) {
  const auto as_bytes = std::as_bytes(bytes);
  return {as_bytes.begin(), as_bytes.end()};
}

}  // namespace nd::fuzz
