// SPDX-License-Identifier: Apache-2.0
// Access lists stand for the owner's permissions.
#include "base/os/file.h"

#include <algorithm>
#include <cerrno>

#include "base/os/access_win.h"

#undef ReplaceFile  // A macro of <windows.h>.

namespace nd::os {
namespace {

constexpr std::uint32_t kAllShares = FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE;

int Error() {
  SetErrno(::GetLastError());
  return errno;
}

Handle OpenToLook(const std::string& path, DWORD access, DWORD flags) {
  return Handle(::CreateFileW(WidePath(path).c_str(), access, kAllShares, nullptr, OPEN_EXISTING,
                              FILE_FLAG_BACKUP_SEMANTICS | flags, nullptr));
}

int LookAt(const std::string& path, DWORD flags, FileFacts* facts) {
  const Handle file = OpenToLook(path, READ_CONTROL | FILE_READ_ATTRIBUTES, flags);
  BY_HANDLE_FILE_INFORMATION found;
  FileAccess access;
  if (!file || ::GetFileInformationByHandle(file.get(), &found) == 0) return Error();
  if (!AccessOf(file.get(), &access)) return errno;
  using Kind = FileFacts::Kind;
  const bool link = (found.dwFileAttributes & FILE_ATTRIBUTE_REPARSE_POINT) != 0;
  const bool directory = (found.dwFileAttributes & FILE_ATTRIBUTE_DIRECTORY) != 0;
  facts->kind = link ? Kind::kLink : directory ? Kind::kDirectory : Kind::kFile;
  facts->size = std::uint64_t{found.nFileSizeHigh} << 32 | found.nFileSizeLow;
  facts->owner = access.owner;
  facts->permissions =
      (directory ? 0700u : 0600u) | (access.others_read ? 0044u : 0u) | (access.others_write ? 0022u : 0u);
  return 0;
}

}  // namespace

int Look(const std::string& path, FileFacts* facts) {
  return LookAt(path, 0, facts);
}

int LookAtLink(const std::string& path, FileFacts* facts) {
  return LookAt(path, FILE_FLAG_OPEN_REPARSE_POINT, facts);
}

int WriteNewFile(const std::string& path, std::string_view bytes, Readers readers) {
  NewAccess access(readers == Readers::kOwner ? 0 : FILE_GENERIC_READ);
  if (!access) return Error();
  Handle file(::CreateFileW(WidePath(path).c_str(), GENERIC_WRITE, 0, access.get(), CREATE_NEW,
                            FILE_ATTRIBUTE_NORMAL, nullptr));
  if (!file) return Error();
  while (!bytes.empty()) {
    DWORD written = 0;
    const auto size = static_cast<DWORD>(std::min<std::size_t>(bytes.size(), 1 << 20));
    if (::WriteFile(file.get(), bytes.data(), size, &written, nullptr) == 0 || written == 0) {
      const int error = Error();
      file = Handle();
      RemoveFile(path);
      return error;
    }
    bytes.remove_prefix(written);
  }
  return 0;
}

int ReplaceFile(const std::string& path, const std::string& temporary, std::string_view bytes,
                Readers readers) {
  RemoveFile(temporary);
  if (const int error = WriteNewFile(temporary, bytes, readers); error != 0) return error;
  if (::MoveFileExW(WidePath(temporary).c_str(), WidePath(path).c_str(), MOVEFILE_REPLACE_EXISTING) != 0) {
    return 0;
  }
  const int error = Error();
  RemoveFile(temporary);
  return error;
}

int EnsureFile(const std::string& path) {
  FileFacts facts;
  if (LookAtLink(path, &facts) == 0) return facts.kind == FileFacts::Kind::kLink ? ELOOP : 0;
  const int error = WriteNewFile(path, {}, Readers::kOwner);
  return error == EEXIST ? 0 : error;
}

int ReadPrivateFile(const std::string& path, std::size_t most, std::string* bytes) {
  const Handle file = OpenToLook(path, GENERIC_READ, FILE_FLAG_OPEN_REPARSE_POINT);
  BY_HANDLE_FILE_INFORMATION found;
  FileAccess access;
  if (!file || ::GetFileInformationByHandle(file.get(), &found) == 0) return Error();
  if (!AccessOf(file.get(), &access)) return errno;
  constexpr DWORD kNoFile = FILE_ATTRIBUTE_REPARSE_POINT | FILE_ATTRIBUTE_DIRECTORY;
  if ((found.dwFileAttributes & kNoFile) != 0 || !access.ours || access.others_read || access.others_write) {
    return EPERM;
  }
  bytes->resize(most);
  DWORD size = 0;
  const bool good = ::ReadFile(file.get(), bytes->data(), static_cast<DWORD>(most), &size, nullptr) != 0;
  const int error = good ? 0 : Error();
  bytes->resize(size);
  return error;
}

// New files have the access list that their directory passes on; there is no setting of the process.
OwnersFilesOnly::OwnersFilesOnly() : before_(0) {}

OwnersFilesOnly::~OwnersFilesOnly() {
  static_cast<void>(before_);
}

int MakePrivateDirectory(const std::string& path) {
  NewAccess access;
  if (!access) return Error();
  return ::CreateDirectoryW(WidePath(path).c_str(), access.get()) != 0 ? 0 : Error();
}

int RemoveFile(const std::string& path) {
  return ::DeleteFileW(WidePath(path).c_str()) != 0 ? 0 : Error();
}

}  // namespace nd::os
