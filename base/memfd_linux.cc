// SPDX-License-Identifier: Apache-2.0
// Linux memfds and their seals.
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include "base/memfd.h"
#include "base/memfd_beginning.h"

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif

namespace nd {
namespace {

constexpr int kSizeSeals = F_SEAL_GROW | F_SEAL_SHRINK;

Status NoMemory(const char* what) {
  return {StatusCode::kInsufficientResources, std::string(what) + ": " + std::strerror(errno),
          Detail::kTransport, errno};
}

std::size_t RoundToPages(std::size_t size) {
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  return (size + page - 1) / page * page;
}

// In pieces: a signal of the program ends one, and its pages are given back.
bool TakePages(int fd, off_t length) {
  constexpr off_t kPiece = off_t{1} << 20;
  for (off_t done = 0; done < length; done += kPiece) {
    while (fallocate(fd, 0, done, std::min(kPiece, length - done)) != 0) {
      if (errno != EINTR) return false;
    }
  }
  return true;
}

Result<UniqueFd> CreateSized(const char* name, std::size_t size) {
  UniqueFd fd(memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd) return NoMemory("cannot create shared memory");
  const auto length = static_cast<off_t>(RoundToPages(size));
  if (ftruncate(fd.get(), length) != 0) return NoMemory("cannot size shared memory");
  if (PagesCountWhenUsed() && !TakePages(fd.get(), length)) {
    return NoMemory("cannot take the pages of shared memory (vm.overcommit_memory is 2)");
  }
  return fd;
}

}  // namespace

bool PagesCountWhenUsed() {
  static const bool count = [] {
    const UniqueFd setting(open("/proc/sys/vm/overcommit_memory", O_RDONLY | O_CLOEXEC));
    char mode = 0;
    return setting && read(setting.get(), &mode, 1) == 1 && mode == '2';
  }();
  return count;
}

Result<UniqueFd> CreateSealedMemfd(const char* name, std::size_t size) {
  Result<UniqueFd> fd = CreateSized(name, size);
  if (!fd.ok()) return fd;
  if (fcntl(fd->get(), F_ADD_SEALS, kSizeSeals | F_SEAL_SEAL) != 0)
    return NoMemory("cannot seal shared memory");
  return fd;
}

Result<UniqueFd> CreateReadOnlyMemfd(const char* name, std::size_t size, Mapping* mapping) {
  Result<UniqueFd> fd = CreateSized(name, size);
  if (!fd.ok()) return fd;
  Result<Mapping> map = Mapping::Map(fd->get(), RoundToPages(size), /*writable=*/true);
  if (!map.ok()) return map.status();
  if (fcntl(fd->get(), F_ADD_SEALS, kSizeSeals | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL) != 0) {
    return NoMemory("cannot seal shared memory");
  }
  *mapping = std::move(map).value();
  return fd;
}

bool WriteBeginning(int memfd, std::span<const std::byte> bytes) {
  return pwrite(memfd, bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size());
}

Result<std::size_t> CheckSealedMemfd(int fd, std::size_t min_size) {
  const int seals = fcntl(fd, F_GET_SEALS);
  if (seals < 0) return Status{StatusCode::kAccessViolation, "the descriptor is not a memfd"};
  if ((seals & (kSizeSeals | F_SEAL_SEAL)) != (kSizeSeals | F_SEAL_SEAL)) {
    return Status{StatusCode::kAccessViolation, "the memfd is not sealed against GROW, SHRINK and SEAL"};
  }
  struct statfs system;
  struct stat info;
  if (fstatfs(fd, &system) != 0 || fstat(fd, &info) != 0) return NoMemory("cannot stat shared memory");
  if (system.f_type == HUGETLBFS_MAGIC) {
    return Status{StatusCode::kAccessViolation,
                  "the memfd has reserved huge pages (MFD_HUGETLB), expected ordinary pages"};
  }
  if (info.st_size < 0 || static_cast<std::size_t>(info.st_size) < min_size) {
    return Status{StatusCode::kAccessViolation, "the memfd has " + std::to_string(info.st_size) +
                                                    " bytes, expected at least " + std::to_string(min_size)};
  }
  return static_cast<std::size_t>(info.st_size);
}

Result<Mapping> Mapping::Map(int fd, std::size_t size, bool writable) {
  const int protection = writable ? PROT_READ | PROT_WRITE : PROT_READ;
  void* data = mmap(nullptr, size, protection, MAP_SHARED, fd, 0);
  if (data == MAP_FAILED) return NoMemory("cannot map shared memory");
  Mapping mapping;
  mapping.data_ = static_cast<std::byte*>(data);
  mapping.size_ = size;
  return mapping;
}

Mapping::Mapping(Mapping&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)),
      kept_from_children_(other.kept_from_children_) {}

Mapping& Mapping::operator=(Mapping&& other) noexcept {
  if (this != &other) {
    Unmap();
    data_ = std::exchange(other.data_, nullptr);
    size_ = std::exchange(other.size_, 0);
    kept_from_children_ = other.kept_from_children_;
  }
  return *this;
}

void Mapping::KeepFromChildren() {
  kept_from_children_.emplace();
  madvise(data_, size_, MADV_DONTFORK);
}

void Mapping::Unmap() {
  if (data_ == nullptr || (kept_from_children_ && kept_from_children_->InChild())) return;
  munmap(data_, size_);
}

Mapping::~Mapping() {
  Unmap();
}

}  // namespace nd
