// SPDX-License-Identifier: Apache-2.0
// File calls of the journal, and messages for their failures.
#include "daemon/state/journal_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

namespace nd::state {
namespace {

// Enough for every port of many addresses; a larger file is not a journal.
constexpr off_t kMost = 64 << 20;

Status SystemError(const std::string& what) {
  const int error = errno;
  return {StatusCode::kUnsuccessful, what + ": " + std::strerror(error), Detail::kNone, error};
}

Status WriteAll(int fd, std::span<const std::byte> bytes, off_t offset, const std::string& path) {
  while (!bytes.empty()) {
    const ssize_t n = ::pwrite(fd, bytes.data(), bytes.size(), offset);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return SystemError("cannot write " + path);
    bytes = bytes.subspan(static_cast<std::size_t>(n));
    offset += n;
  }
  return {};
}

}  // namespace

JournalFile::JournalFile(std::string directory) : path_(std::move(directory) + "/" + kJournalName) {}

Status JournalFile::Open(UniqueFd* out) const {
  UniqueFd fd(::open(path_.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (!fd && errno == ENOENT) return {};
  if (!fd && errno == ELOOP) {
    return {StatusCode::kAccessDenied, path_ + " is a symbolic link; remove it"};
  }
  struct stat st;
  if (!fd && errno != EACCES && errno != ENXIO) return SystemError("cannot open " + path_);
  if (fd ? ::fstat(fd.get(), &st) != 0 : ::lstat(path_.c_str(), &st) != 0) {
    return SystemError("cannot look at " + path_);
  }
  if (!S_ISREG(st.st_mode)) return {StatusCode::kAccessDenied, path_ + " is no ordinary file; remove it"};
  if (st.st_uid != ::geteuid()) {
    return {StatusCode::kAccessDenied, path_ + " belongs to uid " + std::to_string(st.st_uid) +
                                           ", not to uid " + std::to_string(::geteuid()) + "; remove it"};
  }
  *out = std::move(fd);
  return {};
}

Result<std::vector<std::byte>> JournalFile::Read() {
  UniqueFd fd;
  if (Status status = Open(&fd); !status.ok()) return status;
  std::vector<std::byte> image;
  if (!fd) return image;
  struct stat st;
  if (::fstat(fd.get(), &st) != 0) return SystemError("cannot look at " + path_);
  image.resize(static_cast<std::size_t>(st.st_size < kMost ? st.st_size : kMost));
  std::size_t have = 0;
  while (have < image.size()) {
    const ssize_t n = ::pread(fd.get(), image.data() + have, image.size() - have, static_cast<off_t>(have));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return SystemError("cannot read " + path_);
    if (n == 0) break;
    have += static_cast<std::size_t>(n);
  }
  image.resize(have);
  return image;
}

Status JournalFile::Write(std::size_t offset, std::span<const std::byte> bytes) {
  if (!file_) return {StatusCode::kUnsuccessful, path_ + " is not open"};
  return WriteAll(file_.get(), bytes, static_cast<off_t>(offset), path_);
}

Status JournalFile::Replace(std::span<const std::byte> image) {
  UniqueFd former;
  if (Status status = Open(&former); !status.ok()) return status;
  const std::string fresh = path_ + ".new";
  ::unlink(fresh.c_str());
  UniqueFd fd(::open(fresh.c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!fd) return SystemError("cannot make " + fresh);
  Status status = WriteAll(fd.get(), image, 0, fresh);
  if (status.ok() && ::rename(fresh.c_str(), path_.c_str()) != 0) {
    status = SystemError("cannot rename " + fresh);
  }
  if (!status.ok()) {
    ::unlink(fresh.c_str());
    return status;
  }
  file_ = std::move(fd);
  return {};
}

void JournalFile::Discard() {
  // Either suffices: a header of zeros is invalid, and a file on a full file system can still be overwritten.
  if (file_) static_cast<void>(Write(0, std::array<std::byte, kHeaderSize>{}));
  UniqueFd former;
  if (Open(&former).ok() && former) ::unlink(path_.c_str());
  file_.reset();
}

Status JournalFile::SetAside() {
  const std::string bad = path_ + ".bad";
  if (::rename(path_.c_str(), bad.c_str()) != 0) return SystemError("cannot rename " + path_);
  file_.reset();
  return {StatusCode::kSuccess, " as " + bad};
}

std::string BootId() {
  std::string text(kMaxBootId, '\0');
  std::FILE* file = std::fopen("/proc/sys/kernel/random/boot_id", "re");
  if (file == nullptr) return "";
  text.resize(std::fread(text.data(), 1, text.size(), file));
  std::fclose(file);
  return text;
}

}  // namespace nd::state
