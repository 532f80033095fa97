// SPDX-License-Identifier: Apache-2.0
// File calls of the journal, and messages for their failures.
#include "daemon/state/journal_file.h"

#include "base/os/access_win.h"

#include <winternl.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>

#include "base/os/file.h"

namespace nd::state {
namespace {

// Enough for every port of many addresses; a larger file is not a journal.
constexpr std::uint64_t kMost = 64 << 20;

Status SystemError(const std::string& what) {
  const DWORD number = ::GetLastError();
  os::SetErrno(number);
  return {StatusCode::kUnsuccessful, what + ": Windows error " + std::to_string(number), Detail::kNone,
          errno};
}

OVERLAPPED At(std::uint64_t offset) {
  OVERLAPPED at{};
  at.Offset = static_cast<DWORD>(offset);
  at.OffsetHigh = static_cast<DWORD>(offset >> 32);
  return at;
}

HANDLE HandleOf(const UniqueFd& fd) {
  return os::FindAs<os::FileObject>(fd.get())->get();
}

Status WriteAll(HANDLE file, std::span<const std::byte> bytes, std::uint64_t offset,
                const std::string& path) {
  while (!bytes.empty()) {
    OVERLAPPED at = At(offset);
    DWORD written = 0;
    const auto size = static_cast<DWORD>(std::min<std::size_t>(bytes.size(), 1 << 20));
    if (::WriteFile(file, bytes.data(), size, &written, &at) == 0 || written == 0) {
      return SystemError("cannot write " + path);
    }
    bytes = bytes.subspan(written);
    offset += written;
  }
  return {};
}

UniqueFd Own(HANDLE file) {
  os::Handle owned(file);
  return owned ? UniqueFd(os::PutObject(std::make_shared<os::FileObject>(std::move(owned)))) : UniqueFd();
}

constexpr DWORD kShares = FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE;

}  // namespace

JournalFile::JournalFile(std::string directory) : path_(std::move(directory) + "\\" + kJournalName) {}

Status JournalFile::Open(UniqueFd* out) const {
  UniqueFd fd = Own(::CreateFileW(os::WidePath(path_).c_str(), GENERIC_READ, kShares, nullptr, OPEN_EXISTING,
                                  FILE_FLAG_OPEN_REPARSE_POINT | FILE_FLAG_BACKUP_SEMANTICS, nullptr));
  if (!fd) {
    if (::GetLastError() == ERROR_FILE_NOT_FOUND) return {};
    return SystemError("cannot open " + path_);
  }
  BY_HANDLE_FILE_INFORMATION found;
  os::FileAccess access;
  if (::GetFileInformationByHandle(HandleOf(fd), &found) == 0 || !os::AccessOf(HandleOf(fd), &access)) {
    return SystemError("cannot look at " + path_);
  }
  if ((found.dwFileAttributes & (FILE_ATTRIBUTE_REPARSE_POINT | FILE_ATTRIBUTE_DIRECTORY)) != 0) {
    return {StatusCode::kAccessDenied, path_ + " is no ordinary file; remove it"};
  }
  if (!access.ours) return {StatusCode::kAccessDenied, path_ + " belongs to another user; remove it"};
  *out = std::move(fd);
  return {};
}

Result<std::vector<std::byte>> JournalFile::Read() {
  UniqueFd fd;
  if (Status status = Open(&fd); !status.ok()) return status;
  std::vector<std::byte> image;
  if (!fd) return image;
  LARGE_INTEGER size{};
  if (::GetFileSizeEx(HandleOf(fd), &size) == 0) return SystemError("cannot look at " + path_);
  image.resize(static_cast<std::size_t>(std::min(static_cast<std::uint64_t>(size.QuadPart), kMost)));
  std::size_t have = 0;
  while (have < image.size()) {
    DWORD got = 0;
    OVERLAPPED at = At(have);
    if (::ReadFile(HandleOf(fd), image.data() + have, static_cast<DWORD>(image.size() - have), &got, &at) ==
            0 &&
        ::GetLastError() != ERROR_HANDLE_EOF) {
      return SystemError("cannot read " + path_);
    }
    if (got == 0) break;
    have += got;
  }
  image.resize(have);
  return image;
}

Status JournalFile::Write(std::size_t offset, std::span<const std::byte> bytes) {
  if (!file_) return {StatusCode::kUnsuccessful, path_ + " is not open"};
  return WriteAll(HandleOf(file_), bytes, offset, path_);
}

Status JournalFile::Replace(std::span<const std::byte> image) {
  UniqueFd former;
  if (Status status = Open(&former); !status.ok()) return status;
  const std::string fresh = path_ + ".new";
  os::RemoveFile(fresh);
  os::NewAccess access;
  if (!access) return SystemError("cannot make an access list for " + fresh);
  UniqueFd fd = Own(::CreateFileW(os::WidePath(fresh).c_str(), GENERIC_READ | GENERIC_WRITE, kShares,
                                  access.get(), CREATE_NEW, FILE_ATTRIBUTE_NORMAL, nullptr));
  if (!fd) return SystemError("cannot make " + fresh);
  Status status = WriteAll(HandleOf(fd), image, 0, fresh);
  // A name is not replaced while its file is open.
  former.reset();
  file_.reset();
  if (status.ok() && ::MoveFileExW(os::WidePath(fresh).c_str(), os::WidePath(path_).c_str(),
                                   MOVEFILE_REPLACE_EXISTING) == 0) {
    status = SystemError("cannot rename " + fresh);
  }
  if (!status.ok()) {
    os::RemoveFile(fresh);
    return status;
  }
  file_ = std::move(fd);
  return {};
}

void JournalFile::Discard() {
  // Either suffices: a header of zeros is invalid, and a file on a full file system can still be overwritten.
  if (file_) static_cast<void>(Write(0, std::array<std::byte, kHeaderSize>{}));
  UniqueFd former;
  const bool ours = Open(&former).ok() && former;
  former.reset();
  file_.reset();
  if (ours) os::RemoveFile(path_);
}

Status JournalFile::SetAside() {
  const std::string bad = path_ + ".bad";
  file_.reset();
  if (::MoveFileExW(os::WidePath(path_).c_str(), os::WidePath(bad).c_str(), MOVEFILE_REPLACE_EXISTING) == 0) {
    return SystemError("cannot rename " + path_);
  }
  return {StatusCode::kSuccess, " as " + bad};
}

// The time of the start of the system, without later corrections of the clock.
std::string BootId() {
  struct TimeOfDay {  // SYSTEM_TIMEOFDAY_INFORMATION
    LARGE_INTEGER boot, now, zone;
    ULONG zone_number, reserved;
    ULONGLONG boot_correction, sleep_correction;
  } times{};
  constexpr auto kTimeOfDay = static_cast<SYSTEM_INFORMATION_CLASS>(3);
  if (::NtQuerySystemInformation(kTimeOfDay, &times, sizeof times, nullptr) != 0) return "";
  return std::to_string(static_cast<std::uint64_t>(times.boot.QuadPart) - times.boot_correction);
}

}  // namespace nd::state
