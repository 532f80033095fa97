// SPDX-License-Identifier: Apache-2.0
// The functions of the C library that allocate memory which programs register: at the beginning of a page,
// and with --share-memory all that have the size of a buffer; and those that take such memory back. All other
// memory is the C library's.
#include <dlfcn.h>
#include <malloc.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "verbs-lib/export.h"
#include "verbs-lib/libc_next.h"
#include "verbs-lib/share_memory/blocks.h"
#include "verbs-lib/share_memory/offer.h"

namespace {

using nd::share_memory::Allocate;

// That of a page, at least.
constexpr std::size_t kBufferAlignment = 4096;
// malloc() and calloc() share this much. Larger memory is mostly data of the program, which a fork would
// copy.
constexpr std::size_t kLeastBuffer = std::size_t{64} << 10, kMostBuffer = std::size_t{4} << 20;
// Without --share-memory a fork copies no more than this.
constexpr std::size_t kMostBytes = std::size_t{256} << 20;

// dlsym() may allocate and free while it is asked for these functions. Such memory comes from here, and what
// it frees then is lost.
thread_local constinit bool asks __attribute__((tls_model("initial-exec"))) = false;
alignas(16) constinit std::array<std::byte, 4096> early{};
constinit std::atomic<std::size_t> early_used{0};

void* AllocateEarly(std::size_t size) {
  if (size > early.size()) return nullptr;
  const std::size_t rounded = size / 16 * 16 + 16, begin = early_used.fetch_add(rounded);
  return rounded > early.size() || begin > early.size() - rounded ? nullptr : &early[begin];
}
bool IsEarly(const void* memory) {
  return reinterpret_cast<std::uintptr_t>(memory) - reinterpret_cast<std::uintptr_t>(early.data()) <
         early.size();
}

// The next definition of a function that dlsym() may call.
template <typename Function>
Function* Ask(Function** cache, const char* name) {
  asks = true;
  Function* const found = nd::verbs_lib::Next(cache, name);
  asks = false;
  return found;
}

// Whether that is wanted: a program that allocates and frees such memory often becomes slower.
constinit std::atomic<bool> shares_buffers{false};

void* AllocateBuffer(std::size_t size) {
  const bool is_buffer = size >= kLeastBuffer && size <= kMostBuffer && shares_buffers.load();
  return is_buffer ? Allocate(kBufferAlignment, size) : nullptr;
}

// A program with an allocator of its own must not get a block from here, which that one cannot free.
bool AllIsOurs() {
  Dl_info here{}, found{};
  if (dladdr(&early, &here) == 0) return false;
  return std::ranges::all_of(
      std::array{"malloc", "calloc", "free", "realloc", "reallocarray", "malloc_usable_size",
                 "posix_memalign", "aligned_alloc", "memalign", "valloc", "pvalloc"},
      [&](const char* name) {
        void* const function = dlsym(RTLD_DEFAULT, name);
        return dladdr(function, &found) != 0 && found.dli_fbase == here.dli_fbase;
      });
}

// The bytes that may be read at `memory`, when it is not the C library's; else 0.
std::size_t SizeHere(const void* memory) {
  if (!IsEarly(memory)) return nd::share_memory::SizeOf(memory);
  return static_cast<std::size_t>(early.data() + early.size() - static_cast<const std::byte*>(memory));
}

// A block does not grow in place, because others have mapped it.
void* Move(void* from, std::size_t had, std::size_t size) {
  void* const moved = malloc(size);
  if (moved == nullptr) return nullptr;
  std::memcpy(moved, from, had < size ? had : size);
  free(from);
  return moved;
}

}  // namespace

NDBROKER_PUBLIC int posix_memalign(void** out, std::size_t alignment, std::size_t size) noexcept {
  if (void* block = Allocate(alignment, size)) {
    *out = block;
    return 0;
  }
  return NDBROKER_NEXT(posix_memalign)(out, alignment, size);
}

NDBROKER_PUBLIC void* aligned_alloc(std::size_t alignment, std::size_t size) noexcept {
  void* const block = Allocate(alignment, size);
  return block != nullptr ? block : NDBROKER_NEXT(aligned_alloc)(alignment, size);
}

NDBROKER_PUBLIC void* memalign(std::size_t alignment, std::size_t size) noexcept {
  void* const block = Allocate(alignment, size);
  return block != nullptr ? block : NDBROKER_NEXT(memalign)(alignment, size);
}

NDBROKER_PUBLIC void* valloc(std::size_t size) noexcept {
  void* const block = Allocate(kBufferAlignment, size);
  return block != nullptr ? block : NDBROKER_NEXT(valloc)(size);
}

NDBROKER_PUBLIC void* pvalloc(std::size_t size) noexcept {
  void* const block = Allocate(kBufferAlignment, size);
  return block != nullptr ? block : NDBROKER_NEXT(pvalloc)(size);
}

NDBROKER_PUBLIC void* malloc(std::size_t size) noexcept {
  if (asks) return AllocateEarly(size);
  if (void* block = AllocateBuffer(size)) return block;
  static decltype(&malloc) next;
  return Ask(&next, "malloc")(size);
}

NDBROKER_PUBLIC void* calloc(std::size_t count, std::size_t size) noexcept {
  std::size_t bytes = 0;
  const bool fits = !__builtin_mul_overflow(count, size, &bytes);
  if (asks) return fits ? AllocateEarly(bytes) : nullptr;
  if (void* block = fits ? AllocateBuffer(bytes) : nullptr) return block;
  static decltype(&calloc) next;
  return Ask(&next, "calloc")(count, size);
}

NDBROKER_PUBLIC void free(void* memory) noexcept {
  if (asks || IsEarly(memory) || nd::share_memory::Free(memory)) return;
  static decltype(&free) next;
  Ask(&next, "free")(memory);
}

NDBROKER_PUBLIC void* realloc(void* memory, std::size_t size) noexcept {
  const std::size_t had = SizeHere(memory);
  if (had == 0) return NDBROKER_NEXT(realloc)(memory, size);
  if (size == 0) {
    free(memory);
    return nullptr;
  }
  return size <= had && !IsEarly(memory) ? memory : Move(memory, had, size);
}

NDBROKER_PUBLIC void* reallocarray(void* memory, std::size_t count, std::size_t size) noexcept {
  std::size_t bytes = 0;
  if (__builtin_mul_overflow(count, size, &bytes)) {
    errno = ENOMEM;
    return nullptr;
  }
  return realloc(memory, bytes);
}

NDBROKER_PUBLIC std::size_t malloc_usable_size(void* memory) noexcept {
  const std::size_t size = SizeHere(memory);
  return size != 0 ? size : NDBROKER_NEXT(malloc_usable_size)(memory);
}

// Ordinary memory becomes zero at once, or perhaps later. Shared memory does not know the second advice.
NDBROKER_PUBLIC int madvise(void* memory, std::size_t length, int advice) noexcept {
  const bool discards = advice == MADV_DONTNEED || advice == MADV_FREE;
  if (discards && nd::share_memory::Discard(memory, length)) advice = MADV_DONTNEED;
  // A child has a copy anyway, and must not inherit the mapping.
  if (advice == MADV_DOFORK && nd::share_memory::IsShared(memory, length)) return 0;
  return NDBROKER_NEXT(madvise)(memory, length, advice);
}

NDBROKER_PUBLIC void ndbroker_share_memory(bool all) {
  if (AllIsOurs()) {
    shares_buffers = all;
    return nd::share_memory::Begin(all ? SIZE_MAX : kMostBytes);
  }
  if (all)
    std::fputs("ndbroker: --share-memory has no effect: the program has an allocator of its own\n", stderr);
}

NDBROKER_PUBLIC int ndbroker_memory_around(const void* address, std::size_t length, void** begin,
                                           std::size_t* size) {
  nd::share_memory::Around found = nd::share_memory::FindAround(address, length);
  *begin = found.begin;
  *size = found.size;
  return found.fd ? found.fd.release() : -1;
}
