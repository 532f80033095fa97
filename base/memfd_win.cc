// SPDX-License-Identifier: Apache-2.0
// Sections backed by the paging file. Their size never changes. A handle without the right to write stands
// for the seal against writable mappings.
#include "base/memfd.h"

#include "base/memfd_beginning.h"
#include "base/os/object_win.h"

#include <winternl.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

extern "C" NTSTATUS NTAPI NtQuerySection(HANDLE, int, void*, SIZE_T, SIZE_T*);

namespace nd {
namespace {

struct SectionFacts {  // SECTION_BASIC_INFORMATION
  void* base;
  ULONG attributes;
  LARGE_INTEGER size;
};

Status NoMemory(const char* doing) {
  const DWORD error = ::GetLastError();
  os::SetErrno(error);
  return {StatusCode::kInsufficientResources, std::string(doing) + ": Windows error " + std::to_string(error),
          Detail::kTransport, errno};
}

std::size_t RoundToPages(std::size_t size) {
  SYSTEM_INFO info;
  ::GetSystemInfo(&info);
  return (size + info.dwPageSize - 1) / info.dwPageSize * info.dwPageSize;
}

Result<UniqueFd> Own(os::Handle section) {
  UniqueFd fd(os::PutObject(std::make_shared<os::SectionObject>(std::move(section))));
  if (fd) return fd;
  return Status{StatusCode::kInsufficientResources, "no descriptor is left", Detail::kTransport, errno};
}

os::Handle Create(std::size_t size) {
  return os::Handle(::CreateFileMappingW(INVALID_HANDLE_VALUE, nullptr, PAGE_READWRITE | SEC_COMMIT,
                                         static_cast<DWORD>(size >> 32), static_cast<DWORD>(size), nullptr));
}

}  // namespace

// The pages of a section count when it is made.
bool PagesCountWhenUsed() {
  return false;
}

Result<UniqueFd> CreateSealedMemfd(const char* /*name*/, std::size_t size) {
  os::Handle section = Create(RoundToPages(size));
  if (!section) return NoMemory("cannot create shared memory");
  return Own(std::move(section));
}

Result<UniqueFd> CreateReadOnlyMemfd(const char* name, std::size_t size, Mapping* mapping) {
  Result<UniqueFd> fd = CreateSealedMemfd(name, size);
  if (!fd.ok()) return fd;
  Result<Mapping> map = Mapping::Map(fd->get(), RoundToPages(size), /*writable=*/true);
  if (!map.ok()) return map.status();
  HANDLE reader = nullptr;
  if (::DuplicateHandle(::GetCurrentProcess(), os::FindAs<os::SectionObject>(fd->get())->get(),
                        ::GetCurrentProcess(), &reader, SECTION_MAP_READ | SECTION_QUERY, FALSE, 0) == 0) {
    return NoMemory("cannot seal shared memory");
  }
  *mapping = std::move(map).value();
  return Own(os::Handle(reader));
}

bool WriteBeginning(int memfd, std::span<const std::byte> bytes) {
  const Result<Mapping> map = Mapping::Map(memfd, bytes.size(), /*writable=*/true);
  if (!map.ok()) return false;
  std::memcpy(map->data(), bytes.data(), bytes.size());
  return true;
}

Result<std::size_t> CheckSealedMemfd(int fd, std::size_t min_size) {
  const auto section = os::FindAs<os::SectionObject>(fd);
  SectionFacts facts{};
  if (!section || ::NtQuerySection(section->get(), 0, &facts, sizeof facts, nullptr) != 0) {
    return Status{StatusCode::kAccessViolation, "the descriptor is not a section"};
  }
  // Pages of a file, or pages that were only reserved, could be missing when they are used.
  constexpr ULONG kFile = 0x800000, kImage = 0x1000000, kReserved = 0x4000000;
  if ((facts.attributes & (kFile | kImage | kReserved)) != 0 || (facts.attributes & SEC_COMMIT) == 0) {
    return Status{StatusCode::kAccessViolation, "the section is not memory of the paging file"};
  }
  const auto size = static_cast<std::uint64_t>(facts.size.QuadPart);
  if (size < min_size) {
    return Status{StatusCode::kAccessViolation, "the section has " + std::to_string(size) +
                                                    " bytes, expected at least " + std::to_string(min_size)};
  }
  return static_cast<std::size_t>(size);
}

Result<Mapping> Mapping::Map(int fd, std::size_t size, bool writable) {
  const auto section = os::FindAs<os::SectionObject>(fd);
  if (!section) return Status{StatusCode::kInsufficientResources, "the descriptor is not a section"};
  void* const data =
      ::MapViewOfFile(section->get(), writable ? FILE_MAP_READ | FILE_MAP_WRITE : FILE_MAP_READ, 0, 0, size);
  if (data == nullptr) return NoMemory("cannot map shared memory");
  Mapping mapping;
  mapping.data_ = static_cast<std::byte*>(data);
  mapping.size_ = size;
  return mapping;
}

Mapping::Mapping(Mapping&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

Mapping& Mapping::operator=(Mapping&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

void Mapping::KeepFromChildren() {}

void Mapping::Unmap() {
  if (data_ != nullptr) ::UnmapViewOfFile(data_);
}

Mapping::~Mapping() {
  Unmap();
}

}  // namespace nd
