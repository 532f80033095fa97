// SPDX-License-Identifier: Apache-2.0
// The directory holds the journal, the key and the lock. The sockets are pipes, whose names are made from it.
#include "daemon/server/runtime_dir_win.h"

#include "base/os/access_win.h"

#include <cerrno>
#include <cstdlib>
#include <memory>

#include "base/locate.h"
#include "base/os/file.h"
#include "base/os/pipe_listener_win.h"
#include "base/os/self.h"
#include "daemon/server/runtime_dir.h"

namespace nd::service {
namespace {

Status SystemError(const std::string& what) {
  const DWORD number = ::GetLastError();
  os::SetErrno(number);
  return {StatusCode::kUnsuccessful, what + ": Windows error " + std::to_string(number), Detail::kNone,
          errno};
}

std::string ReadText(const std::string& path) {
  const os::Handle file(::CreateFileW(os::WidePath(path).c_str(), GENERIC_READ,
                                      FILE_SHARE_READ | FILE_SHARE_WRITE, nullptr, OPEN_EXISTING, 0,
                                      nullptr));
  char text[32];
  DWORD size = 0;
  if (!file || ::ReadFile(file.get(), text, sizeof text, &size, nullptr) == 0) return {};
  return std::string(text, size);
}

}  // namespace

Status MakeRuntimeDirectory(const std::string& path) {
  os::NewAccess list(READ_CONTROL | FILE_READ_ATTRIBUTES | SYNCHRONIZE);
  if (!list || (::CreateDirectoryW(os::WidePath(path).c_str(), list.get()) == 0 &&
                ::GetLastError() != ERROR_ALREADY_EXISTS)) {
    return SystemError("cannot make the directory " + path);
  }
  const os::Handle directory(::CreateFileW(
      os::WidePath(path).c_str(), READ_CONTROL | FILE_READ_ATTRIBUTES, FILE_SHARE_READ | FILE_SHARE_WRITE,
      nullptr, OPEN_EXISTING, FILE_FLAG_BACKUP_SEMANTICS | FILE_FLAG_OPEN_REPARSE_POINT, nullptr));
  BY_HANDLE_FILE_INFORMATION found;
  os::FileAccess access;
  if (!directory || ::GetFileInformationByHandle(directory.get(), &found) == 0 ||
      !os::AccessOf(directory.get(), &access)) {
    return SystemError("cannot open the directory " + path);
  }
  if ((found.dwFileAttributes & FILE_ATTRIBUTE_DIRECTORY) == 0 ||
      (found.dwFileAttributes & FILE_ATTRIBUTE_REPARSE_POINT) != 0) {
    return {StatusCode::kAccessDenied, path + " is not a directory; remove it or give another --dir"};
  }
  if (!access.ours || access.others_write) {
    return {StatusCode::kAccessDenied,
            path + (access.ours ? " is writable by others" : " belongs to another user") +
                "; remove it or give another --dir"};
  }
  return Status::Ok();
}

std::string DefaultRuntimeDirectory() {
  return OwnBrokerDirectory();
}

Result<UniqueFd> LockRuntimeDirectory(const std::string& path) {
  if (Status status = MakeRuntimeDirectory(path); !status.ok()) return status;
  const std::string name = path + "\\ndbrokerd.lock";
  os::NewAccess access;
  // Others may read the process number in it; a second writer is refused.
  os::Handle file(access ? ::CreateFileW(os::WidePath(name).c_str(), GENERIC_WRITE, FILE_SHARE_READ,
                                         access.get(), CREATE_ALWAYS, FILE_ATTRIBUTE_NORMAL, nullptr)
                         : nullptr);
  if (!file) {
    if (::GetLastError() != ERROR_SHARING_VIOLATION) return SystemError("cannot open " + name);
    const std::string text = ReadText(name);
    const long pid = std::strtol(text.c_str(), nullptr, 10);
    return Status(StatusCode::kSharingViolation,
                  "another ndbrokerd" + (pid > 0 ? " (pid " + std::to_string(pid) + ")" : std::string()) +
                      " already serves " + path + "; stop it or give another --dir");
  }
  const std::string pid = std::to_string(os::ProcessNumber()) + "\r\n";
  DWORD written = 0;
  if (::WriteFile(file.get(), pid.data(), static_cast<DWORD>(pid.size()), &written, nullptr) == 0) {
    return SystemError("cannot write " + name);
  }
  return UniqueFd(os::PutObject(std::make_shared<os::FileObject>(std::move(file))));
}

// Nothing is in it: the pipes have their access lists of their own.
Status MakeClientDirectory(const std::string&) {
  return Status::Ok();
}

Result<UniqueFd> ListenUnix(const std::string& path, os::SocketKind /*kind*/, std::uint32_t mode,
                            std::optional<std::uint32_t> group) {
  const std::wstring name = os::PipeName(path);
  if (name.empty() || path.size() > os::LongestSocketPath()) {
    return Status(StatusCode::kUnsuccessful, "the path " + path +
                                                 " is too long for the name of a pipe; it may have " +
                                                 std::to_string(os::LongestSocketPath()) + " characters");
  }
  if (group) {
    return Status(StatusCode::kNotSupported,
                  "the socket of " + path +
                      " cannot be given to a group on this system; remove the setting "
                      "that ends in -socket-group");
  }
  using Clients = os::PipeListener::Clients;
  std::shared_ptr<os::PipeListener> listener =
      os::PipeListener::Make(name, (mode & 0002) != 0 ? Clients::kEveryone : Clients::kOwner);
  if (!listener) {
    if (errno == EADDRINUSE) {
      return Status(StatusCode::kSharingViolation,
                    "another program serves " + path + "; stop it or give another --dir");
    }
    return SystemError("cannot make the pipe of " + path);
  }
  return UniqueFd(os::PutObject(std::move(listener)));
}

}  // namespace nd::service
