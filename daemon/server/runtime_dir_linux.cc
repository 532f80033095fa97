// SPDX-License-Identifier: Apache-2.0
// Checks directories and socket files before anything is served.
#include "daemon/server/runtime_dir.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "base/locate.h"

namespace nd::service {
namespace {

Status SystemError(const std::string& what) {
  const int error = errno;
  return {StatusCode::kUnsuccessful, what + ": " + std::strerror(error), Detail::kNone, error};
}

std::optional<sockaddr_un> SocketAddress(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) return std::nullopt;
  std::memcpy(address.sun_path, path.data(), path.size());
  return address;
}

// Opens the directory, made with `mode` if it is missing. It must belong to this user, and other users must
// not have write permission.
Result<UniqueFd> OwnDirectory(const std::string& path, mode_t mode) {
  const bool made = ::mkdir(path.c_str(), mode) == 0;
  if (!made && errno != EEXIST) return SystemError("cannot make the directory " + path);
  UniqueFd directory(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!directory) return SystemError("cannot open the directory " + path);
  struct stat st;
  if (::fstat(directory.get(), &st) != 0) return SystemError("cannot read the status of " + path);
  if (st.st_uid != ::geteuid()) {
    return Status(StatusCode::kAccessDenied, path + " belongs to uid " + std::to_string(st.st_uid) +
                                                 ", not to uid " + std::to_string(::geteuid()) +
                                                 "; remove it or give another --dir");
  }
  if ((st.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
    return Status(StatusCode::kAccessDenied,
                  path + " is writable by others; make it 0755 or 0700 or give another --dir");
  }
  // The umask of the caller must not affect the mode.
  if (made && ::fchmod(directory.get(), mode) != 0) return SystemError("cannot set the mode of " + path);
  return directory;
}

}  // namespace

std::string DefaultRuntimeDirectory() {
  // systemd separates several directories by colons; the first one counts.
  const char* given = std::getenv("RUNTIME_DIRECTORY");
  if (given != nullptr && given[0] == '/') {
    const std::string directories = given;
    return directories.substr(0, directories.find(':'));
  }
  return OwnBrokerDirectory();
}

Result<UniqueFd> LockRuntimeDirectory(const std::string& path) {
  Result<UniqueFd> opened = OwnDirectory(path, ::geteuid() == 0 ? 0755 : 0700);
  if (!opened.ok()) return opened.status();
  const UniqueFd directory = std::move(opened.value());
  UniqueFd lock(::openat(directory.get(), "ndbrokerd.lock", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!lock) return SystemError("cannot open " + path + "/ndbrokerd.lock");
  if (::flock(lock.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) return SystemError("cannot lock " + path + "/ndbrokerd.lock");
    std::array<char, 32> text{};
    const ssize_t n = ::pread(lock.get(), text.data(), text.size() - 1, 0);
    const long pid = n > 0 ? std::strtol(text.data(), nullptr, 10) : 0;
    return Status(StatusCode::kSharingViolation,
                  "another ndbrokerd" + (pid > 0 ? " (pid " + std::to_string(pid) + ")" : std::string()) +
                      " already serves " + path + "; stop it or give another --dir");
  }
  const std::string pid = std::to_string(::getpid()) + "\n";
  if (::ftruncate(lock.get(), 0) != 0 ||
      ::pwrite(lock.get(), pid.data(), pid.size(), 0) != static_cast<ssize_t>(pid.size())) {
    return SystemError("cannot write " + path + "/ndbrokerd.lock");
  }
  return lock;
}

Status MakeClientDirectory(const std::string& directory) {
  return OwnDirectory(directory + "/" + kClientDirectoryName, 0755).status();
}

Result<UniqueFd> ListenUnix(const std::string& path, os::SocketKind kind, std::uint32_t mode,
                            std::optional<std::uint32_t> group) {
  const int type = kind == os::SocketKind::kMessages ? SOCK_SEQPACKET : SOCK_STREAM;
  const std::optional<sockaddr_un> address = SocketAddress(path);
  if (!address) {
    return Status(StatusCode::kUnsuccessful, "the path " + path + " is too long for a socket; it may have " +
                                                 std::to_string(sizeof(sockaddr_un::sun_path) - 1) +
                                                 " characters");
  }
  const auto* generic = reinterpret_cast<const sockaddr*>(&*address);
  struct stat st;
  if (::lstat(path.c_str(), &st) == 0) {
    if (!S_ISSOCK(st.st_mode)) {
      return Status(StatusCode::kSharingViolation,
                    path + " exists and is not a socket; remove it or give another --dir");
    }
    UniqueFd probe(::socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!probe) return SystemError("cannot make a socket");
    if (::connect(probe.get(), generic, sizeof *address) == 0 || errno == EAGAIN) {
      return Status(StatusCode::kSharingViolation,
                    "another program serves " + path + "; stop it or give another --dir");
    }
    if (::unlink(path.c_str()) != 0) return SystemError("cannot remove the old socket " + path);
  }
  UniqueFd fd(::socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return SystemError("cannot make a socket");
  // The mode of an unbound socket becomes the mode of its file.
  if (::fchmod(fd.get(), 0600) != 0 || ::bind(fd.get(), generic, sizeof *address) != 0) {
    return SystemError("cannot bind " + path);
  }
  if (group && ::lchown(path.c_str(), static_cast<uid_t>(-1), *group) != 0) {
    return SystemError("cannot give " + path + " to group " + std::to_string(*group));
  }
  if (::chmod(path.c_str(), mode) != 0) return SystemError("cannot set the mode of " + path);
  if (::listen(fd.get(), 1024) != 0) return SystemError("cannot listen on " + path);
  return fd;
}

}  // namespace nd::service
