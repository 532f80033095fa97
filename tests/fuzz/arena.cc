// SPDX-License-Identifier: Apache-2.0
// Uses mmap and mprotect, so that an access beyond the memory is always a fault.
#include "tests/fuzz/arena.h"

#include <sys/mman.h>

namespace nd::fuzz {

Arena::Arena() {
  constexpr std::size_t kSize = (2 * kPages + 1) * kPage;
  void* all = mmap(nullptr, kSize, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  Require(all != MAP_FAILED, "memory can be mapped");
  memory_ = static_cast<std::uint8_t*>(all);
  for (std::size_t i = 0; i < kPages; ++i) {
    Require(mprotect(page(i), kPage, PROT_READ | PROT_WRITE) == 0, "memory can be opened");
    for (std::size_t b = 0; b < kPage; ++b)
      fresh_[i * kPage + b] = static_cast<std::uint8_t>(b * 7 + i * 31 + b / 256);
  }
  Reset();
}

void Arena::Reset() {
  std::memcpy(expected_, fresh_, sizeof fresh_);
  for (std::size_t i = 0; i < kPages; ++i) std::memcpy(page(i), fresh_ + i * kPage, kPage);
}

std::uint8_t* Arena::Expected(std::uint64_t address) {
  for (std::size_t i = 0; i < kPages; ++i) {
    const std::uint64_t offset = address - reinterpret_cast<std::uintptr_t>(page(i));
    if (offset < kPage) return expected_ + i * kPage + offset;
  }
  return nullptr;
}

bool Arena::Same(std::size_t first, std::size_t count) const {
  for (std::size_t i = first; i < first + count; ++i) {
    if (std::memcmp(page(i), expected_ + i * kPage, kPage) != 0) return false;
  }
  return true;
}

}  // namespace nd::fuzz
