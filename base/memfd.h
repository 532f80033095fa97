// SPDX-License-Identifier: Apache-2.0
// Sealed shared memory: anonymous, freed with its last descriptor and mapping.
//
// A segment from Create() carries the seals GROW, SHRINK and SEAL, so that no holder can truncate it under a
// mapping (SIGBUS) or add seals. Its *contents* may change to any value at any time.
#pragma once

#include <cstddef>
#include <optional>

#include "base/os/fork.h"
#include "base/unique_fd.h"
#include "nd/status.h"

namespace nd {

// With vm.overcommit_memory=2 the kernel counts a page when it is used for the first time, and ends the
// process (SIGBUS) when all memory is promised by then. The functions below take all pages at once then, so
// that they are refused instead. A hole that is punched later may end the process. Read once for each
// process.
bool PagesCountWhenUsed();

// Makes a zeroed segment of `size` bytes (rounded up to pages). INSUFFICIENT_RESOURCES when the kernel
// refuses.
Result<UniqueFd> CreateSealedMemfd(const char* name, std::size_t size);

// As above, but later writable mappings are refused: the creator maps it first (through `mapping`), and
// others can only read it.
class Mapping;
Result<UniqueFd> CreateReadOnlyMemfd(const char* name, std::size_t size, Mapping* mapping);

// Checks that `fd` is a memfd with at least those seals and at least `min_size` bytes; ACCESS_VIOLATION with
// the reason otherwise. Returns its size. A memfd of MFD_HUGETLB is refused: a peer that punches holes into
// it and takes the huge pages of the host ends every process that touches it (SIGBUS).
Result<std::size_t> CheckSealedMemfd(int fd, std::size_t min_size);

// An owned mmap.
class Mapping {
 public:
  Mapping() = default;
  static Result<Mapping> Map(int fd, std::size_t size, bool writable);
  Mapping(Mapping&& other) noexcept;
  Mapping& operator=(Mapping&& other) noexcept;
  ~Mapping();

  // Children made by fork() do not have it, on systems that have fork. Its address is free there, so the
  // destructor does nothing in a child.
  void KeepFromChildren();

  std::byte* data() const { return data_; }
  std::size_t size() const { return size_; }
  explicit operator bool() const { return data_ != nullptr; }

 private:
  void Unmap();

  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
  std::optional<os::ForkMark> kept_from_children_;
};

}  // namespace nd
