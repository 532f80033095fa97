// SPDX-License-Identifier: Apache-2.0
#include "verbs-lib/share_memory/blocks.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cerrno>
#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <mutex>

#include "base/memfd.h"
#include "base/os/descriptor.h"
#include "base/os/own_mappings_linux.h"

namespace nd::share_memory {
namespace {

// Small numbers stay for the program, which may use select().
constexpr int kFirstDescriptor = 512;

struct Block {
  std::byte* begin = nullptr;  // Null: the place is free.
  std::size_t size = 0;
  int fd = -1;  // None: the memory is private. It is so in a child of fork().
  os::MemoryNumber number;
  std::size_t name = 0;  // See NameOf().
  bool used = false;
  std::byte* copy = nullptr;  // For the child that is being made.
};

std::mutex mutex;
// This thread is in fork() and holds the mutex, while fork handlers of the program allocate and free.
thread_local constinit bool forks __attribute__((tls_model("initial-exec"))) = false;

class Lock {
 public:
  Lock() {
    if (!forks) mutex.lock();
  }
  ~Lock() {
    if (!forks) mutex.unlock();
  }
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;
};

std::array<Block, kMostBlocks> blocks;
std::atomic<bool> begun{false};
std::size_t most_bytes = 0, used_bytes = 0;  // Guarded by the mutex.
// Without blocks nothing is looked up.
std::atomic<std::size_t> count{0};

std::size_t PageSize() {
  static const auto size = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  return size;
}

// A program that closes every descriptor may have another file behind the number now.
bool HasDescriptor(const Block& block) {
  return block.fd >= 0 && os::NumberOf(block.fd) == block.number;
}

// Both under the lock.
bool MayUse(std::size_t size) {
  return used_bytes <= most_bytes && size <= most_bytes - used_bytes;
}
void SetUsed(Block& block, bool used) {
  used_bytes = used ? used_bytes + block.size : used_bytes - block.size;
  block.used = used;
}

void Remove(Block& block) {
  munmap(block.begin, block.size);
  if (HasDescriptor(block)) close(block.fd);
  block = {};
  --count;
}

// Children do not have it.
bool MapFile(int fd, std::byte* begin, std::size_t size) {
  return mmap(begin, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) != MAP_FAILED &&
         madvise(begin, size, MADV_DONTFORK) == 0;
}

// Reserves the addresses first, because the alignment may be that of huge pages.
std::byte* MapAligned(int fd, std::size_t alignment, std::size_t size) {
  const std::size_t slack = alignment - PageSize();
  if (size > SIZE_MAX - slack) return nullptr;
  void* const place = mmap(nullptr, size + slack, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (place == MAP_FAILED) return nullptr;
  auto* const first = static_cast<std::byte*>(place);
  std::byte* const begin = first + (-reinterpret_cast<std::uintptr_t>(first) & (alignment - 1));
  std::byte* const end = begin + size;
  if (begin != first) munmap(first, static_cast<std::size_t>(begin - first));
  if (end != first + size + slack) munmap(end, static_cast<std::size_t>(first + size + slack - end));
  if (!MapFile(fd, begin, size)) {
    munmap(begin, size);
    return nullptr;
  }
  return begin;
}

// A file that is longer than the limit of the program's files would end the program (SIGXFSZ).
bool FileMayHave(std::size_t size) {
  rlimit limit{};
  return getrlimit(RLIMIT_FSIZE, &limit) == 0 && size <= limit.rlim_cur;
}

// A memfd's own, so that the name of a mapping tells which memfd it is of.
using Name = std::array<char, 48>;
Name NameOf(std::size_t number) {
  Name name;
  std::snprintf(name.data(), name.size(), "ndbroker-program-%zu", number);
  return name;
}
std::atomic<std::size_t> next_name{1};

Block Make(std::size_t alignment, std::size_t size) {
  if (!FileMayHave(size)) return {};
  const std::size_t name = next_name.fetch_add(1, std::memory_order_relaxed);
  auto made = CreateSealedMemfd(NameOf(name).data(), size);
  if (!made.ok()) return {};
  UniqueFd fd(fcntl(made->get(), F_DUPFD_CLOEXEC, kFirstDescriptor));
  if (!fd) fd = std::move(made).value();
  const auto number = os::NumberOf(fd.get());
  std::byte* const begin = number ? MapAligned(fd.get(), alignment, size) : nullptr;
  if (begin == nullptr) return {};
  return {.begin = begin, .size = size, .fd = fd.release(), .number = *number, .name = name};
}

Block* Starting(const void* memory) {
  const auto found = std::find_if(blocks.begin(), blocks.end(), [memory](const Block& block) {
    return block.begin == memory && block.used;
  });
  return found == blocks.end() ? nullptr : &*found;
}

Block* Containing(const void* address, std::size_t length) {
  const auto first = reinterpret_cast<std::uintptr_t>(address);
  const auto found = std::find_if(blocks.begin(), blocks.end(), [&](const Block& block) {
    const std::uintptr_t offset = first - reinterpret_cast<std::uintptr_t>(block.begin);
    return block.used && offset < block.size && length <= block.size - offset;
  });
  return found == blocks.end() ? nullptr : &*found;
}

// Whether `memory` can begin a block: most addresses do not.
bool MayBegin(const void* memory) {
  return memory != nullptr && reinterpret_cast<std::uintptr_t>(memory) % PageSize() == 0 &&
         count.load(std::memory_order_acquire) != 0;
}

// Zeros in the place of pages that could not be had again.
bool WriteZeros(const Block& block, std::size_t offset, std::size_t length) {
  static constexpr std::array<std::byte, 4096> zeros{};
  const std::size_t end = offset + length;
  while (offset < end) {
    const ssize_t written =
        pwrite(block.fd, zeros.data(), std::min(zeros.size(), end - offset), static_cast<off_t>(offset));
    if (written <= 0) return false;
    offset += static_cast<std::size_t>(written);
  }
  return true;
}

// By the memfd and not by the address, where the program may have mapped a file of its own.
bool PunchHole(const Block& block, std::size_t offset, std::size_t length) {
  return HasDescriptor(block) && fallocate(block.fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                                           static_cast<off_t>(offset), static_cast<off_t>(length)) == 0;
}

// Whether all of the block is one mapping of its memfd. One link of /proc says so, where the list of mappings
// would be long in a process with many. False also when the program protected a part, which splits the
// mapping, and when the system does not tell.
bool IsWhole(const Around& block, std::size_t name) {
  std::array<char, 64> link{};
  const auto begin = reinterpret_cast<std::uintptr_t>(block.begin);
  std::snprintf(link.data(), link.size(), "/proc/self/map_files/%" PRIxPTR "-%" PRIxPTR, begin,
                begin + block.size);
  std::array<char, 80> found{}, expected{};
  std::snprintf(expected.data(), expected.size(), "/memfd:%s (deleted)", NameOf(name).data());
  return readlink(link.data(), found.data(), found.size() - 1) > 0 && found == expected;
}

// Whether the range is still that of the memfd: the program may have mapped other memory there.
bool IsOfFile(const Around& block, os::MemoryNumber file, const void* address, std::size_t length) {
  const auto first = reinterpret_cast<std::uintptr_t>(block.begin);
  auto at = reinterpret_cast<std::uintptr_t>(address);
  const std::uintptr_t end = at + length;
  os::ForEachMapping([&](const os::OwnMapping& mapping) {
    if (mapping.end <= at) return true;
    if (mapping.begin > at || !mapping.shared || mapping.file != file ||
        mapping.offset + (at - mapping.begin) != at - first) {
      return false;
    }
    at = mapping.end;
    return at < end;
  });
  return at >= end;
}

// A place for a new block; a block that is not used makes room. Null: all are used.
Block* Room() {
  Block* room = nullptr;
  for (Block& block : blocks) {
    if (block.begin == nullptr) return &block;
    if (!block.used) room = &block;
  }
  if (room != nullptr) Remove(*room);
  return room;
}

// --- fork(). The copies are made before, so that the child has what the forking thread had written, and
// nothing that the parent writes later.

std::byte* CopyOf(const Block& block) {
  void* const place =
      mmap(nullptr, block.size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (place == MAP_FAILED) return nullptr;
  auto* const copy = static_cast<std::byte*>(place);
  if (!HasDescriptor(block)) {
    std::memcpy(copy, block.begin, block.size);
    return copy;
  }
  // Pages that were never used stay so. The program may have protected others.
  const auto end = static_cast<off_t>(block.size);
  for (off_t from = lseek(block.fd, 0, SEEK_DATA); from >= 0 && from < end;) {
    const off_t to = std::min(lseek(block.fd, from, SEEK_HOLE), end);
    if (to <= from) break;
    while (from < to) {
      const ssize_t got = pread(block.fd, copy + from, static_cast<std::size_t>(to - from), from);
      if (got <= 0) {
        munmap(copy, block.size);
        return nullptr;
      }
      from += got;
    }
    from = lseek(block.fd, to, SEEK_DATA);
  }
  return copy;
}

void BeforeFork() {
  const int error = errno;
  mutex.lock();
  forks = true;
  for (Block& block : blocks) {
    if (block.used && block.fd >= 0) block.copy = CopyOf(block);
  }
  errno = error;
}

void InParent() {
  for (Block& block : blocks) {
    if (block.copy != nullptr) munmap(block.copy, block.size);
    block.copy = nullptr;
  }
  forks = false;
  mutex.unlock();
}

// Moves pages of the copy to addresses that are free, because the mapping is not inherited.
bool Place(const Block& block, std::size_t offset, std::size_t length) {
  std::byte* const to = block.begin + offset;
  void* const place =
      mmap(to, length, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
  return place == to && mremap(block.copy + offset, length, length, MREMAP_MAYMOVE | MREMAP_FIXED, to) == to;
}

// Where the program has mapped other memory, that memory stays.
bool PutCopyInPlace(const Block& block) {
  if (block.copy == nullptr) return false;
  if (Place(block, 0, block.size)) return true;
  for (std::size_t at = 0; at < block.size; at += PageSize()) {
    if (!Place(block, at, PageSize()) && errno != EEXIST) return false;
  }
  munmap(block.copy, block.size);
  return true;
}

void InChild() {
  begun.store(false);
  for (Block& block : blocks) {
    if (block.begin == nullptr || block.fd < 0) continue;
    if (HasDescriptor(block)) close(block.fd);
    block.fd = -1;
    if (!block.used || !PutCopyInPlace(block)) {
      constexpr char kLost[] = "ndbroker: not enough memory for a copy of shared memory in a forked child\n";
      if (block.used && write(STDERR_FILENO, kLost, sizeof kLost - 1) < 0) continue;
      block = {};
      --count;
    }
    block.copy = nullptr;
  }
  forks = false;
  mutex.unlock();
}

// Before all other handlers of the program, as the C library has it: BeforeFork() is then the last to take
// its lock. Others may wait there for a lock of theirs under which another thread allocates or frees.
bool has_fork_handlers = false;
__attribute__((constructor)) void RegisterForkHandlers() {
  has_fork_handlers = pthread_atfork(BeforeFork, InParent, InChild) == 0;
}

}  // namespace

void Begin(std::size_t most) {
  if (!has_fork_handlers) return;
  const Lock lock;
  most_bytes = most;
  begun.store(true);
}

void* Allocate(std::size_t alignment, std::size_t size) {
  const std::size_t page = PageSize();
  if (!begun.load(std::memory_order_acquire) || forks || alignment < page ||
      !std::has_single_bit(alignment) || size < page || size > SIZE_MAX - page) {
    return nullptr;
  }
  const int error = errno;
  size = (size + page - 1) / page * page;
  {
    const Lock lock;
    if (!MayUse(size)) return nullptr;
    for (Block& block : blocks) {
      if (block.begin == nullptr || block.used || block.size != size ||
          reinterpret_cast<std::uintptr_t>(block.begin) % alignment != 0) {
        continue;
      }
      SetUsed(block, true);
      return block.begin;
    }
  }
  const Block made = Make(alignment, size);
  errno = error;
  if (made.begin == nullptr) return nullptr;
  const Lock lock;
  if (Block* room = MayUse(size) ? Room() : nullptr) {
    *room = made;
    SetUsed(*room, true);
    ++count;
    return made.begin;
  }
  munmap(made.begin, made.size);
  close(made.fd);
  return nullptr;
}

bool Free(void* memory) {
  if (!MayBegin(memory)) return false;
  const int error = errno;
  const Lock lock;
  Block* const block = Starting(memory);
  if (block == nullptr) return false;
  SetUsed(*block, false);
  const bool keeps = !PagesCountWhenUsed() && PunchHole(*block, 0, block->size) &&
                     MapFile(block->fd, block->begin, block->size);
  if (!keeps) Remove(*block);
  errno = error;
  return true;
}

bool Discard(void* memory, std::size_t length) {
  if (!MayBegin(memory) || length == 0 || length > SIZE_MAX - PageSize()) return false;
  length = (length + PageSize() - 1) / PageSize() * PageSize();
  const Lock lock;
  const Block* const block = Containing(memory, length);
  if (block == nullptr || block->fd < 0) return false;
  if (!HasDescriptor(*block)) return madvise(memory, length, MADV_REMOVE) == 0;
  const auto offset = static_cast<std::size_t>(static_cast<std::byte*>(memory) - block->begin);
  return PagesCountWhenUsed() ? WriteZeros(*block, offset, length) : PunchHole(*block, offset, length);
}

std::size_t SizeOf(const void* memory) {
  if (!MayBegin(memory)) return 0;
  const Lock lock;
  const Block* const block = Starting(memory);
  return block == nullptr ? 0 : block->size;
}

void MakeOrdinary(const void* address, std::size_t length) {
  if (count.load(std::memory_order_acquire) == 0) return;
  const Lock lock;
  Block* const block = Containing(address, length);
  if (block == nullptr || block->fd < 0) return;
  std::byte* const copy = CopyOf(*block);
  if (copy == nullptr) return;
  if (mremap(copy, block->size, block->size, MREMAP_MAYMOVE | MREMAP_FIXED, block->begin) == MAP_FAILED) {
    munmap(copy, block->size);
    return;
  }
  if (HasDescriptor(*block)) close(block->fd);
  block->fd = -1;
}

bool IsShared(const void* address, std::size_t length) {
  if (count.load(std::memory_order_acquire) == 0) return false;
  const Lock lock;
  const Block* const block = Containing(address, length);
  return block != nullptr && block->fd >= 0;
}

Around FindAround(const void* address, std::size_t length) {
  if (count.load(std::memory_order_acquire) == 0) return {};
  Around around;
  os::MemoryNumber number;
  std::size_t name = 0;
  {
    const Lock lock;
    const Block* const block = Containing(address, length);
    if (block == nullptr || !HasDescriptor(*block)) return {};
    around = {os::Duplicate(block->fd), block->begin, block->size};
    number = block->number;
    name = block->name;
  }
  if (!IsWhole(around, name) && !IsOfFile(around, number, address, length)) return {};
  return around;
}

}  // namespace nd::share_memory
