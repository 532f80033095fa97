// SPDX-License-Identifier: Apache-2.0
// Replaces the allocator of the program with one that can fail. The array forms are replaced, too, unless a
// sanitizer has its own; the aligned forms stay those of the library.
#include "tests/sim/memory.h"

#include <cstdlib>

namespace {

thread_local constinit std::uint32_t left = 0;  // Allocations until one fails; 0: none fails.

}  // namespace

void* operator new(std::size_t size) {
  if (left != 0 && --left == 0) throw std::bad_alloc();
  if (void* const memory = std::malloc(size == 0 ? 1 : size)) return memory;
  throw std::bad_alloc();
}
void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  if (left != 0 && --left == 0) return nullptr;
  return std::malloc(size == 0 ? 1 : size);
}
void operator delete(void* memory) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}
void operator delete(void* memory, const std::nothrow_t&) noexcept {
  std::free(memory);
}

namespace nd::sim {

Shortage::Shortage(std::uint32_t at) {
  left = at;
}
Shortage::~Shortage() {
  left = 0;
}

Plenty::Plenty() : before_(left) {
  left = 0;
}
Plenty::~Plenty() {
  left = before_;
}

}  // namespace nd::sim
