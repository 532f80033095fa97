// SPDX-License-Identifier: Apache-2.0
// Preloaded into a program under test: stops or kills it before or after the system call that the test names.
// The product contains no code for it. Other calls cost one load.
#include <fcntl.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "tests/crash/shim_control.h"

namespace nd::crash {
namespace {

ShimControl* control = nullptr;

__attribute__((constructor)) void MapControl() {
  const char* path = std::getenv(kControlVariable);
  if (path == nullptr) return;
  const long fd = syscall(SYS_openat, AT_FDCWD, path, O_RDWR | O_CLOEXEC, 0);
  if (fd < 0) return;
  void* mapped =
      mmap(nullptr, sizeof(ShimControl), PROT_READ | PROT_WRITE, MAP_SHARED, static_cast<int>(fd), 0);
  syscall(SYS_close, fd);
  if (mapped != MAP_FAILED) control = static_cast<ShimControl*>(mapped);
}

void Happen(const char* call) {
  if (control->countdown.fetch_sub(1) != 1) return;
  std::uint32_t armed = 1;
  if (!control->armed.compare_exchange_strong(armed, 2))
    return;  // The call began before the hold point was disarmed.
  std::strncpy(control->call, call, sizeof(control->call) - 1);
  control->reached = 1;
  const int saved = errno;
  // Sent to this thread, because another thread might take a signal to the process while this one continues.
  syscall(SYS_tgkill, getpid(), syscall(SYS_gettid), control->act == Act::kKill ? SIGKILL : SIGSTOP);
  errno = saved;
}

// The first bytes that a call sends.
struct Content {
  const void* data = nullptr;
  std::size_t size = 0;
  bool descriptors = false;
};

bool Meant(const Content& content, bool goodbye) {
  const auto begins = [&](const char* text) {
    const std::size_t length = std::strlen(text);
    return content.size >= length && std::memcmp(content.data, text, length) == 0;
  };
  switch (control->point) {
    case Point::kAnyCall:
      return true;
    case Point::kSendDescriptors:
      return content.descriptors;
    case Point::kAck:
      return begins("KADN");  // 0x4E44414B in host order.
    case Point::kMpaRequest:
      return begins("MPA ID Req Frame");
    case Point::kMpaReply:
      return begins("MPA ID Rep Frame");
    case Point::kRtr:
      // An empty Write or an empty Read, each a whole frame.
      return (content.size == 20 && std::memcmp(content.data, "\x00\x0e", 2) == 0) ||
             (content.size == 52 && std::memcmp(content.data, "\x00\x2e", 2) == 0);
    case Point::kGoodbye:
      return goodbye;
  }
  return false;
}

template <typename F>
auto Guard(const char* call, int fd, const Content& content, F&& run, bool goodbye = false) {
  if (control == nullptr || control->armed.load(std::memory_order_acquire) != 1 ||
      (fd >= 0 && fd == control->harness) || !Meant(content, goodbye)) {
    return run();
  }
  ++control->counted;
  if (control->after == 0) Happen(call);
  const auto result = run();
  if (control->after != 0) Happen(call);
  return result;
}

Content Front(const iovec* parts, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    if (parts[i].iov_len != 0) return {parts[i].iov_base, parts[i].iov_len};
  }
  return {};
}

long Arg(const void* pointer) {
  return reinterpret_cast<long>(pointer);
}

}  // namespace
}  // namespace nd::crash

using nd::crash::Arg;
using nd::crash::Content;
using nd::crash::Guard;

extern "C" {

ssize_t sendmsg(int fd, const msghdr* message, int flags) {
  Content content = nd::crash::Front(message->msg_iov, message->msg_iovlen);
  for (cmsghdr* c = CMSG_FIRSTHDR(message); c != nullptr; c = CMSG_NXTHDR(const_cast<msghdr*>(message), c)) {
    content.descriptors |= c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS;
  }
  return Guard("sendmsg", fd, content, [&] { return syscall(SYS_sendmsg, fd, Arg(message), flags); });
}
ssize_t recvmsg(int fd, msghdr* message, int flags) {
  return Guard("recvmsg", fd, {}, [&] { return syscall(SYS_recvmsg, fd, Arg(message), flags); });
}
ssize_t send(int fd, const void* data, size_t size, int flags) {
  return Guard("send", fd, {data, size},
               [&] { return syscall(SYS_sendto, fd, Arg(data), size, flags, 0L, 0L); });
}
ssize_t recv(int fd, void* data, size_t size, int flags) {
  return Guard("recv", fd, {}, [&] { return syscall(SYS_recvfrom, fd, Arg(data), size, flags, 0L, 0L); });
}
ssize_t write(int fd, const void* data, size_t size) {
  return Guard("write", fd, {data, size}, [&] { return syscall(SYS_write, fd, Arg(data), size); });
}
ssize_t read(int fd, void* data, size_t size) {
  return Guard("read", fd, {}, [&] { return syscall(SYS_read, fd, Arg(data), size); });
}
ssize_t writev(int fd, const iovec* parts, int count) {
  return Guard("writev", fd, nd::crash::Front(parts, static_cast<std::size_t>(count)),
               [&] { return syscall(SYS_writev, fd, Arg(parts), count); });
}
int socket(int domain, int type, int protocol) __THROW {
  return static_cast<int>(
      Guard("socket", -1, {}, [&] { return syscall(SYS_socket, domain, type, protocol); }));
}
int socketpair(int domain, int type, int protocol, int* fds) __THROW {
  return static_cast<int>(
      Guard("socketpair", -1, {}, [&] { return syscall(SYS_socketpair, domain, type, protocol, Arg(fds)); }));
}
int bind(int fd, const sockaddr* address, socklen_t length) __THROW {
  return static_cast<int>(Guard("bind", fd, {}, [&] { return syscall(SYS_bind, fd, Arg(address), length); }));
}
int listen(int fd, int backlog) __THROW {
  return static_cast<int>(Guard("listen", fd, {}, [&] { return syscall(SYS_listen, fd, backlog); }));
}
int connect(int fd, const sockaddr* address, socklen_t length) {
  return static_cast<int>(
      Guard("connect", fd, {}, [&] { return syscall(SYS_connect, fd, Arg(address), length); }));
}
int accept4(int fd, sockaddr* address, socklen_t* length, int flags) {
  return static_cast<int>(
      Guard("accept4", fd, {}, [&] { return syscall(SYS_accept4, fd, Arg(address), Arg(length), flags); }));
}
int shutdown(int fd, int how) __THROW {
  return static_cast<int>(Guard(
      "shutdown", fd, {}, [&] { return syscall(SYS_shutdown, fd, how); }, true));
}
int close(int fd) {
  return static_cast<int>(Guard("close", fd, {}, [&] { return syscall(SYS_close, fd); }));
}
int memfd_create(const char* name, unsigned flags) __THROW {
  return static_cast<int>(
      Guard("memfd_create", -1, {}, [&] { return syscall(SYS_memfd_create, Arg(name), flags); }));
}
ssize_t pwrite(int fd, const void* data, size_t size, off_t offset) {
  return Guard("pwrite", fd, {data, size},
               [&] { return syscall(SYS_pwrite64, fd, Arg(data), size, offset); });
}
int fdatasync(int fd) {
  return static_cast<int>(Guard("fdatasync", fd, {}, [&] { return syscall(SYS_fdatasync, fd); }));
}
int ftruncate(int fd, off_t size) __THROW {
  return static_cast<int>(Guard("ftruncate", fd, {}, [&] { return syscall(SYS_ftruncate, fd, size); }));
}
int epoll_ctl(int epoll, int operation, int fd, epoll_event* event) __THROW {
  return static_cast<int>(
      Guard("epoll_ctl", fd, {}, [&] { return syscall(SYS_epoll_ctl, epoll, operation, fd, Arg(event)); }));
}
int setsockopt(int fd, int level, int name, const void* value, socklen_t length) __THROW {
  return static_cast<int>(Guard(
      "setsockopt", fd, {}, [&] { return syscall(SYS_setsockopt, fd, level, name, Arg(value), length); }));
}

}  // extern "C"
