// SPDX-License-Identifier: Apache-2.0
// The functions of the C library through which librdmacm reaches /dev/infiniband/rdma_cm, and those that
// install handlers of faults. For every other path, descriptor and signal they are the C library's own;
// sysfs_doors.cc has those that only take other paths.
//
// They run in any thread of any program, before constructors and after destructors, so they allocate nothing
// and take no lock unless the call is for the device.
#include <fcntl.h>
#include <linux/netlink.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdarg>
#include <cstring>

#include "verbs-lib/cm_channel.h"
#include "verbs-lib/cm_commands.h"
#include "verbs-lib/export.h"
#include "verbs-lib/fault_guard.h"
#include "verbs-lib/libc_next.h"
#include "verbs-lib/virtual_sysfs.h"

namespace {

using nd::verbs_lib::CmChannel;
using nd::verbs_lib::RealPath;

constexpr char kDevice[] = "/dev/infiniband/rdma_cm";

bool IsDevice(const char* path) {
  return path != nullptr && std::strcmp(path, kDevice) == 0;
}

int OpenDevice(int flags) {
  const auto channel = CmChannel::Open();
  if (!channel) return -1;
  if ((flags & O_NONBLOCK) != 0) fcntl(channel->fd(), F_SETFL, O_NONBLOCK);
  return channel->fd();
}

// The third argument of open(), which exists only when a file may be created.
bool HasMode(int flags) {
  return (flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE;
}

// The channel looks like a character device.
template <typename Stat>
int Described(int fd, int result, Stat* out) {
  if (result == 0 && CmChannel::Is(fd) && CmChannel::StillIs(fd)) out->st_mode = S_IFCHR | 0666;
  return result;
}

}  // namespace

NDBROKER_PUBLIC int open(const char* path, int flags, ...) {
  if (IsDevice(path)) return OpenDevice(flags);
  const RealPath real(path);
  if (!HasMode(flags)) return NDBROKER_NEXT(open)(real.get(), flags);
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = va_arg(arguments, mode_t);
  va_end(arguments);
  return NDBROKER_NEXT(open)(real.get(), flags, mode);
}

NDBROKER_PUBLIC int open64(const char* path, int flags, ...) {
  if (IsDevice(path)) return OpenDevice(flags);
  const RealPath real(path);
  if (!HasMode(flags)) return NDBROKER_NEXT(open64)(real.get(), flags);
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = va_arg(arguments, mode_t);
  va_end(arguments);
  return NDBROKER_NEXT(open64)(real.get(), flags, mode);
}

NDBROKER_PUBLIC int access(const char* path, int mode) noexcept {
  if (IsDevice(path)) return 0;
  return NDBROKER_NEXT(access)(RealPath(path).get(), mode);
}

NDBROKER_PUBLIC int fstat(int fd, struct stat* out) noexcept {
  return Described(fd, NDBROKER_NEXT(fstat)(fd, out), out);
}

NDBROKER_PUBLIC int fstat64(int fd, struct stat64* out) noexcept {
  return Described(fd, NDBROKER_NEXT(fstat64)(fd, out), out);
}

// Programs that were linked with a C library before 2.33, and the sanitizers, call these.
NDBROKER_PUBLIC int __fxstat(int /*version*/, int fd, struct stat* out) noexcept {
  return Described(fd, NDBROKER_NEXT(fstat)(fd, out), out);
}

NDBROKER_PUBLIC int __fxstat64(int /*version*/, int fd, struct stat64* out) noexcept {
  return Described(fd, NDBROKER_NEXT(fstat64)(fd, out), out);
}

// A child of fork() or vfork() closes its copy only.
NDBROKER_PUBLIC int close(int fd) {
  if (CmChannel::Is(fd) && CmChannel::OpenedHere()) CmChannel::Forget(fd);
  return NDBROKER_NEXT(close)(fd);
}

NDBROKER_PUBLIC ssize_t write(int fd, const void* data, std::size_t size) {
  if (!CmChannel::Is(fd) || !CmChannel::StillIs(fd)) return NDBROKER_NEXT(write)(fd, data, size);
  const nd::verbs_lib::MemoryAccess access;
  const auto channel = CmChannel::OpenedHere() ? CmChannel::Of(fd) : nullptr;
  const int error = channel ? nd::verbs_lib::RunCommand(channel, data, size) : EBADF;
  if (error == 0) return static_cast<ssize_t>(size);
  errno = error;
  return -1;
}

NDBROKER_PUBLIC int sigaction(int number, const struct sigaction* wanted, struct sigaction* former) noexcept {
  using Action = struct sigaction;
  Action copy{};
  if (wanted != nullptr) copy = *wanted;  // `former` may be the same.
  if (nd::verbs_lib::KeepAction(number, wanted == nullptr ? nullptr : &copy, former)) return 0;
  return NDBROKER_NEXT(sigaction)(number, wanted, former);
}

NDBROKER_PUBLIC sighandler_t signal(int number, sighandler_t handler) noexcept {
  struct sigaction wanted {
  }, former{};
  wanted.sa_handler = handler;
  wanted.sa_flags = SA_RESTART;
  sigaddset(&wanted.sa_mask, number);
  if (nd::verbs_lib::KeepAction(number, &wanted, &former)) return former.sa_handler;
  return NDBROKER_NEXT(signal)(number, handler);
}

// librdmacm asks the kernel for the number of the real device over this family, and waits for udev when it
// differs.
NDBROKER_PUBLIC int socket(int domain, int type, int protocol) noexcept {
  if (domain == AF_NETLINK && protocol == NETLINK_RDMA) {
    errno = EPROTONOSUPPORT;
    return -1;
  }
  return NDBROKER_NEXT(socket)(domain, type, protocol);
}
