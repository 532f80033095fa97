// SPDX-License-Identifier: Apache-2.0
// /proc/self/maps names device and file of a mapping, and the descriptor with the same two is looked for.
// That list is long in a process with many mappings, so memory that belongs to no file, as most does, is told
// by its page.
#include "base/os/memfd_behind.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstdint>
#include <cstring>
#include <memory>
#include <utility>

#include "base/memfd.h"
#include "base/os/own_mappings_linux.h"

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif

namespace nd::os {
namespace {

struct CloseDirectory {
  void operator()(DIR* directory) const { ::closedir(directory); }
};

// False also for memory that was not used yet.
bool BelongsToNoFile(std::uintptr_t address) {
  // Documentation/admin-guide/mm/pagemap.rst of Linux.
  constexpr std::uint64_t kPresent = std::uint64_t{1} << 63, kFileOrShared = std::uint64_t{1} << 61;
  const UniqueFd pages(::open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC));
  std::uint64_t page = 0;
  const auto number = address / static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto place = static_cast<off_t>(number * sizeof page);
  return pages && ::pread(pages.get(), &page, sizeof page, place) == sizeof page &&
         (page & (kPresent | kFileOrShared)) == kPresent;
}

// The file whose beginning is mapped at `address`, when it is a memfd and the mapping is shared and has
// `length` bytes at least.
std::optional<MemoryNumber> FileAt(std::uintptr_t address, std::size_t length) {
  std::optional<MemoryNumber> found;
  if (BelongsToNoFile(address)) return found;
  ForEachMapping([&](const OwnMapping& mapping) {
    if (mapping.begin < address) return true;
    const bool fits = mapping.begin == address && mapping.end - mapping.begin >= length &&
                      mapping.offset == 0 && mapping.shared && mapping.memfd;
    if (fits) found = mapping.file;
    return false;
  });
  return found;
}

UniqueFd DescriptorOf(const MemoryNumber& number) {
  const std::unique_ptr<DIR, CloseDirectory> directory(::opendir("/proc/self/fd"));
  while (const dirent* entry = directory ? ::readdir(directory.get()) : nullptr) {
    const char* const end = entry->d_name + std::strlen(entry->d_name);
    int fd = -1;
    if (std::from_chars(entry->d_name, end, fd).ptr != end || NumberOf(fd) != number) continue;
    UniqueFd second = Duplicate(fd);
    // Another thread may have closed it meanwhile, and opened something else under its number.
    if (second && NumberOf(second.get()) == number) return second;
  }
  return {};
}

}  // namespace

std::optional<MemfdBehind> FindMemfdBehind(const void* address, std::size_t length) {
  const int error = errno;
  const auto first = reinterpret_cast<std::uintptr_t>(address);
  const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  std::optional<MemfdBehind> found;
  if (first % page != 0 || length == 0) return found;
  if (const std::optional<MemoryNumber> number = FileAt(first, length)) {
    UniqueFd fd = DescriptorOf(*number);
    const auto size = CheckSealedMemfd(fd.get(), 1);
    if (size.ok() && *size <= length) {
      found.emplace();
      found->sealed_against_writing =
          (::fcntl(fd.get(), F_GET_SEALS) & (F_SEAL_WRITE | F_SEAL_FUTURE_WRITE)) != 0;
      found->writable = !found->sealed_against_writing && (::fcntl(fd.get(), F_GETFL) & O_ACCMODE) == O_RDWR;
      found->fd = std::move(fd);
      found->number = *number;
      found->begin = reinterpret_cast<std::byte*>(first);
      found->size = *size;
    }
  }
  errno = error;
  return found;
}

}  // namespace nd::os
