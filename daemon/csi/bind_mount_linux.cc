// SPDX-License-Identifier: Apache-2.0
// mount(2) on a descriptor of the target, so that nothing can put a symbolic link there in between.
#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/unique_fd.h"
#include "daemon/csi/bind_mount.h"

namespace nd::csi {
namespace {

Status Failed(const std::string& what) {
  const StatusCode code = errno == EPERM ? StatusCode::kAccessDenied : StatusCode::kUnsuccessful;
  return {code, what + ": " + std::strerror(errno), Detail::kNone, errno};
}

}  // namespace

bool IsMounted(const std::string& path) {
  struct statx info {};
  return ::statx(AT_FDCWD, path.c_str(), AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT, STATX_TYPE, &info) == 0 &&
         (info.stx_attributes_mask & STATX_ATTR_MOUNT_ROOT) != 0 &&
         (info.stx_attributes & STATX_ATTR_MOUNT_ROOT) != 0;
}

Status MountReadOnly(const std::string& source, const std::string& target) {
  if (IsMounted(target)) return {};
  const bool made = ::mkdir(target.c_str(), 0755) == 0;
  if (!made && errno != EEXIST) return Failed("the directory " + target + " cannot be made");
  const UniqueFd fd(::open(target.c_str(), O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!fd) return {StatusCode::kInvalidParameter, target + " is not a directory", Detail::kNone, errno};
  const std::string at = "/proc/self/fd/" + std::to_string(fd.get());
  constexpr unsigned long kFlags = MS_BIND | MS_REMOUNT | MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC;
  if (::mount(source.c_str(), at.c_str(), nullptr, MS_BIND, nullptr) != 0) {
    Status status = Failed(source + " cannot be mounted at " + target);
    if (made) ::rmdir(target.c_str());
    return status;
  }
  if (::mount(nullptr, target.c_str(), nullptr, kFlags, nullptr) != 0) {
    Status status = Failed(target + " cannot be made read-only");
    static_cast<void>(Unmount(target));
    return status;
  }
  return {};
}

Status Unmount(const std::string& target) {
  // More than one mount only after another program mounted there too.
  for (int i = 0; i < 16 && IsMounted(target); ++i) {
    if (::umount2(target.c_str(), UMOUNT_NOFOLLOW | MNT_DETACH) != 0)
      return Failed(target + " cannot be unmounted");
  }
  if (::rmdir(target.c_str()) != 0 && errno != ENOENT) return Failed(target + " cannot be removed");
  return {};
}

}  // namespace nd::csi
