// SPDX-License-Identifier: Apache-2.0
#include "base/os/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

#include "base/unique_fd.h"

namespace nd::os {
namespace {

FileFacts::Kind KindOf(mode_t mode) {
  switch (mode & S_IFMT) {
    case S_IFREG:
      return FileFacts::Kind::kFile;
    case S_IFDIR:
      return FileFacts::Kind::kDirectory;
    case S_IFSOCK:
      return FileFacts::Kind::kSocket;
    case S_IFLNK:
      return FileFacts::Kind::kLink;
    default:
      return FileFacts::Kind::kOther;
  }
}

int Facts(int result, const struct stat& st, FileFacts* facts) {
  if (result != 0) return errno;
  *facts = {KindOf(st.st_mode), static_cast<std::uint64_t>(st.st_size), st.st_uid, st.st_mode & 07777};
  return 0;
}

}  // namespace

int Look(const std::string& path, FileFacts* facts) {
  struct stat st {};
  return Facts(::stat(path.c_str(), &st), st, facts);
}

int LookAtLink(const std::string& path, FileFacts* facts) {
  struct stat st {};
  return Facts(::lstat(path.c_str(), &st), st, facts);
}

int WriteNewFile(const std::string& path, std::string_view bytes, Readers readers) {
  const UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
                           readers == Readers::kOwner ? 0600 : 0644));
  if (!fd) return errno;
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd.get(), bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) {
      const int error = errno;
      ::unlink(path.c_str());
      return error;
    }
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
  return 0;
}

int ReplaceFile(const std::string& path, const std::string& temporary, std::string_view bytes,
                Readers readers) {
  ::unlink(temporary.c_str());
  if (const int error = WriteNewFile(temporary, bytes, readers); error != 0) return error;
  if (::rename(temporary.c_str(), path.c_str()) == 0) return 0;
  const int error = errno;
  ::unlink(temporary.c_str());
  return error;
}

int EnsureFile(const std::string& path) {
  return UniqueFd(::open(path.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600)) ? 0 : errno;
}

int ReadPrivateFile(const std::string& path, std::size_t most, std::string* bytes) {
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (!fd) return errno;
  struct stat st {};
  if (::fstat(fd.get(), &st) != 0) return errno;
  if (!S_ISREG(st.st_mode) || st.st_uid != ::geteuid() || (st.st_mode & 077) != 0) return EPERM;
  bytes->resize(most);
  const ssize_t size = ::read(fd.get(), bytes->data(), most);
  const int error = errno;
  bytes->resize(size < 0 ? 0 : static_cast<std::size_t>(size));
  return size < 0 ? error : 0;
}

OwnersFilesOnly::OwnersFilesOnly() : before_(::umask(0177)) {}

OwnersFilesOnly::~OwnersFilesOnly() {
  ::umask(before_);
}

int MakePrivateDirectory(const std::string& path) {
  return ::mkdir(path.c_str(), 0700) == 0 ? 0 : errno;
}

int RemoveFile(const std::string& path) {
  return ::unlink(path.c_str()) == 0 ? 0 : errno;
}

}  // namespace nd::os
