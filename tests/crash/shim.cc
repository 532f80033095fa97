// SPDX-License-Identifier: Apache-2.0
// Preloaded into a program under test: stops or kills it before or after the system call that the test names,
// or lets that call or an allocation fail. The product contains no code for it. Other calls cost one load.
#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <cstdarg>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <functional>
#include <iterator>
#include <new>
#include <string_view>

#include "tests/crash/shim_control.h"

namespace nd::crash {
namespace {

ShimControl* control = nullptr;

__attribute__((constructor)) void MapControl() {
  const char* path = std::getenv(kControlVariable);
  if (path == nullptr) return;
  const long fd = syscall(SYS_openat, AT_FDCWD, path, O_RDWR | O_CLOEXEC, 0);
  if (fd < 0) return;
  const long mapped = syscall(SYS_mmap, 0L, sizeof(ShimControl), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0L);
  syscall(SYS_close, fd);
  if (mapped != -1) control = reinterpret_cast<ShimControl*>(mapped);
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
    case Point::kAllocation:
      return false;
  }
  return false;
}

// The error that the kernel would give.
int ErrorOf(const char* call) {
  static constexpr struct {
    const char* call;
    int error;
  } kErrors[] = {{"socket", EMFILE},       {"socketpair", EMFILE}, {"accept4", EMFILE},
                 {"memfd_create", EMFILE}, {"eventfd", EMFILE},    {"epoll_create1", EMFILE},
                 {"dup", EMFILE},          {"open", EMFILE},       {"mmap", ENOMEM},
                 {"epoll_ctl", ENOMEM},    {"recv", ENOMEM},       {"recvmsg", ENOMEM},
                 {"recvmmsg", ENOMEM},     {"read", EIO},          {"write", ENOSPC},
                 {"pwrite", ENOSPC},       {"ftruncate", ENOSPC},  {"fsync", EIO},
                 {"fdatasync", EIO},       {"close", EIO},         {"rename", ENOSPC},
                 {"listen", EADDRINUSE},   {"shutdown", ENOTCONN}, {"connect", EAGAIN}};
  for (const auto& row : kErrors) {
    if (std::strcmp(row.call, call) == 0) return row.error;
  }
  return ENOBUFS;
}
bool Fails() {
  return control->act == Act::kFail || control->act == Act::kFailForEver;
}
// Never 0. Allocates nothing.
std::uint64_t PlaceOf(const void* site) {
  dl_find_object object;
  if (_dl_find_object(const_cast<void*>(site), &object) != 0) return reinterpret_cast<std::uint64_t>(site);
  // The name is empty for the program itself.
  const std::uint64_t file = std::hash<std::string_view>()(basename(object.dlfo_link_map->l_name));
  const auto offset = static_cast<const char*>(site) - static_cast<const char*>(object.dlfo_map_start);
  return file << 32 | static_cast<std::uint32_t>(offset);
}
// Counts a call that may fail, and returns whether this one does.
bool FailsNow(const char* call, const void* site) {
  const std::uint64_t place = PlaceOf(site);
  const std::uint32_t number = control->counted.fetch_add(1);
  if (number < std::size(control->places)) control->places[number] = place;
  if (control->reached != 0)
    return control->act == Act::kFailForEver && std::strncmp(control->call, call, sizeof(control->call)) == 0;
  if (place != control->place || control->countdown.fetch_sub(1) != 1) return false;
  std::strncpy(control->call, call, sizeof(control->call) - 1);
  control->reached = 1;
  return true;
}
bool IsWakeUp(int fd) {
  char path[32] = "/proc/self/fd/", name[24] = {};
  std::size_t end = std::strlen(path), digits = 1;
  for (int n = fd; n >= 10; n /= 10) ++digits;
  for (std::size_t i = digits; i > 0; --i, fd /= 10) path[end + i - 1] = static_cast<char>('0' + fd % 10);
  path[end + digits] = '\0';
  const int saved = errno;
  syscall(SYS_readlinkat, AT_FDCWD, path, name, sizeof name - 1);
  errno = saved;
  return std::strcmp(name, "anon_inode:[eventfd]") == 0;
}

template <typename F>
auto Guard(const void* site, const char* call, int fd, const Content& content, F&& run,
           bool goodbye = false) {
  if (control == nullptr || control->armed.load(std::memory_order_acquire) != 1 ||
      (fd >= 0 && fd == control->harness) || !Meant(content, goodbye)) {
    return run();
  }
  if (Fails()) {
    // Messages for people do not fail, and calls on an eventfd cannot.
    if ((fd >= 0 && fd <= 2) || ((*call == 'w' || *call == 'r') && IsWakeUp(fd))) return run();
    if (!FailsNow(call, site)) return run();
    if (std::strcmp(call, "close") == 0) run();  // The kernel closes the descriptor in any case.
    errno = ErrorOf(call);
    return static_cast<decltype(run())>(-1);
  }
  ++control->counted;
  if (control->after == 0) Happen(call);
  const auto result = run();
  if (control->after != 0) Happen(call);
  return result;
}

void* Allocate(const void* site, std::size_t size, std::size_t alignment, bool throws) {
  if (control != nullptr && control->armed.load(std::memory_order_acquire) == 1 &&
      control->point == Point::kAllocation) {
    bool fails = false;
    if (Fails()) {
      fails = FailsNow("operator new", site);
    } else {
      ++control->counted;
      Happen("operator new");
    }
    if (fails) {
      // As in the standard library: the handler ends the process, or the caller learns of it.
      if (const std::new_handler handler = std::get_new_handler(); handler != nullptr) handler();
      if (throws) throw std::bad_alloc();
      return nullptr;
    }
  }
  if (size == 0) size = 1;
  void* memory = nullptr;
  if (alignment == 0) {
    memory = std::malloc(size);
  } else if (posix_memalign(&memory, alignment, size) != 0) {
    memory = nullptr;
  }
  if (memory == nullptr && throws) throw std::bad_alloc();
  return memory;
}

// A call that is counted only when calls fail.
bool CallsFail() {
  return control != nullptr && control->armed.load(std::memory_order_acquire) == 1 && Fails();
}
template <typename F>
auto GuardFailure(const void* site, const char* call, F&& run) {
  return CallsFail() ? Guard(site, call, -1, {}, run) : run();
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
using nd::crash::GuardFailure;

extern "C" {

ssize_t sendmsg(int fd, const msghdr* message, int flags) {
  Content content = nd::crash::Front(message->msg_iov, message->msg_iovlen);
  for (cmsghdr* c = CMSG_FIRSTHDR(message); c != nullptr; c = CMSG_NXTHDR(const_cast<msghdr*>(message), c)) {
    content.descriptors |= c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS;
  }
  return Guard(__builtin_return_address(0), "sendmsg", fd, content,
               [&] { return syscall(SYS_sendmsg, fd, Arg(message), flags); });
}
int sendmmsg(int fd, mmsghdr* messages, unsigned count, int flags) {
  const msghdr& first = messages->msg_hdr;
  return static_cast<int>(Guard(__builtin_return_address(0), "sendmmsg", fd,
                                nd::crash::Front(first.msg_iov, first.msg_iovlen),
                                [&] { return syscall(SYS_sendmmsg, fd, Arg(messages), count, flags); }));
}
ssize_t recvmsg(int fd, msghdr* message, int flags) {
  return Guard(__builtin_return_address(0), "recvmsg", fd, {},
               [&] { return syscall(SYS_recvmsg, fd, Arg(message), flags); });
}
int recvmmsg(int fd, mmsghdr* messages, unsigned count, int flags, timespec* timeout) {
  return static_cast<int>(Guard(__builtin_return_address(0), "recvmmsg", fd, {}, [&] {
    return syscall(SYS_recvmmsg, fd, Arg(messages), count, flags, Arg(timeout));
  }));
}
ssize_t send(int fd, const void* data, size_t size, int flags) {
  return Guard(__builtin_return_address(0), "send", fd, {data, size},
               [&] { return syscall(SYS_sendto, fd, Arg(data), size, flags, 0L, 0L); });
}
ssize_t recv(int fd, void* data, size_t size, int flags) {
  return Guard(__builtin_return_address(0), "recv", fd, {},
               [&] { return syscall(SYS_recvfrom, fd, Arg(data), size, flags, 0L, 0L); });
}
ssize_t write(int fd, const void* data, size_t size) {
  return Guard(__builtin_return_address(0), "write", fd, {data, size},
               [&] { return syscall(SYS_write, fd, Arg(data), size); });
}
ssize_t read(int fd, void* data, size_t size) {
  return Guard(__builtin_return_address(0), "read", fd, {},
               [&] { return syscall(SYS_read, fd, Arg(data), size); });
}
ssize_t writev(int fd, const iovec* parts, int count) {
  return Guard(__builtin_return_address(0), "writev", fd,
               nd::crash::Front(parts, static_cast<std::size_t>(count)),
               [&] { return syscall(SYS_writev, fd, Arg(parts), count); });
}
int socket(int domain, int type, int protocol) __THROW {
  return static_cast<int>(Guard(__builtin_return_address(0), "socket", -1, {},
                                [&] { return syscall(SYS_socket, domain, type, protocol); }));
}
int socketpair(int domain, int type, int protocol, int* fds) __THROW {
  return static_cast<int>(Guard(__builtin_return_address(0), "socketpair", -1, {},
                                [&] { return syscall(SYS_socketpair, domain, type, protocol, Arg(fds)); }));
}
int bind(int fd, const sockaddr* address, socklen_t length) __THROW {
  return static_cast<int>(Guard(__builtin_return_address(0), "bind", fd, {},
                                [&] { return syscall(SYS_bind, fd, Arg(address), length); }));
}
int listen(int fd, int backlog) __THROW {
  return static_cast<int>(
      Guard(__builtin_return_address(0), "listen", fd, {}, [&] { return syscall(SYS_listen, fd, backlog); }));
}
int connect(int fd, const sockaddr* address, socklen_t length) {
  return static_cast<int>(Guard(__builtin_return_address(0), "connect", fd, {},
                                [&] { return syscall(SYS_connect, fd, Arg(address), length); }));
}
int accept4(int fd, sockaddr* address, socklen_t* length, int flags) {
  return static_cast<int>(Guard(__builtin_return_address(0), "accept4", fd, {},
                                [&] { return syscall(SYS_accept4, fd, Arg(address), Arg(length), flags); }));
}
int shutdown(int fd, int how) __THROW {
  return static_cast<int>(Guard(
      __builtin_return_address(0), "shutdown", fd, {}, [&] { return syscall(SYS_shutdown, fd, how); }, true));
}
int close(int fd) {
  return static_cast<int>(
      Guard(__builtin_return_address(0), "close", fd, {}, [&] { return syscall(SYS_close, fd); }));
}
int memfd_create(const char* name, unsigned flags) __THROW {
  return static_cast<int>(Guard(__builtin_return_address(0), "memfd_create", -1, {},
                                [&] { return syscall(SYS_memfd_create, Arg(name), flags); }));
}
ssize_t pwrite(int fd, const void* data, size_t size, off_t offset) {
  return Guard(__builtin_return_address(0), "pwrite", fd, {data, size},
               [&] { return syscall(SYS_pwrite64, fd, Arg(data), size, offset); });
}
int fdatasync(int fd) {
  return static_cast<int>(
      Guard(__builtin_return_address(0), "fdatasync", fd, {}, [&] { return syscall(SYS_fdatasync, fd); }));
}
int ftruncate(int fd, off_t size) __THROW {
  return static_cast<int>(Guard(__builtin_return_address(0), "ftruncate", fd, {},
                                [&] { return syscall(SYS_ftruncate, fd, size); }));
}
int epoll_ctl(int epoll, int operation, int fd, epoll_event* event) __THROW {
  if (operation != EPOLL_CTL_ADD && nd::crash::CallsFail())  // Needs no memory.
    return static_cast<int>(syscall(SYS_epoll_ctl, epoll, operation, fd, Arg(event)));
  return static_cast<int>(Guard(__builtin_return_address(0), "epoll_ctl", fd, {},
                                [&] { return syscall(SYS_epoll_ctl, epoll, operation, fd, Arg(event)); }));
}
int setsockopt(int fd, int level, int name, const void* value, socklen_t length) __THROW {
  return static_cast<int>(Guard(__builtin_return_address(0), "setsockopt", fd, {}, [&] {
    return syscall(SYS_setsockopt, fd, level, name, Arg(value), length);
  }));
}

// These calls are only made to fail: a process that is killed there has the same descriptors as at the next
// call.
void* mmap(void* at, size_t size, int protection, int flags, int fd, off_t offset) __THROW {
  return reinterpret_cast<void*>(GuardFailure(__builtin_return_address(0), "mmap", [&] {
    return syscall(SYS_mmap, Arg(at), size, protection, flags, fd, offset);
  }));
}
int eventfd(unsigned value, int flags) __THROW {
  return static_cast<int>(GuardFailure(__builtin_return_address(0), "eventfd",
                                       [&] { return syscall(SYS_eventfd2, value, flags); }));
}
int epoll_create1(int flags) __THROW {
  return static_cast<int>(GuardFailure(__builtin_return_address(0), "epoll_create1",
                                       [&] { return syscall(SYS_epoll_create1, flags); }));
}
// The names of the same calls in programs built for large files.
int open64(const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const auto mode = va_arg(arguments, mode_t);
  va_end(arguments);
  return static_cast<int>(GuardFailure(__builtin_return_address(0), "open", [&] {
    return syscall(SYS_openat, AT_FDCWD, Arg(path), flags, mode);
  }));
}
ssize_t pwrite64(int fd, const void* data, size_t size, off64_t offset) {
  return GuardFailure(__builtin_return_address(0), "pwrite",
                      [&] { return syscall(SYS_pwrite64, fd, Arg(data), size, offset); });
}
int ftruncate64(int fd, off64_t size) __THROW {
  return static_cast<int>(GuardFailure(__builtin_return_address(0), "ftruncate",
                                       [&] { return syscall(SYS_ftruncate, fd, size); }));
}
int fsync(int fd) {
  return static_cast<int>(
      GuardFailure(__builtin_return_address(0), "fsync", [&] { return syscall(SYS_fsync, fd); }));
}
// The wall clock only: no other clock of the kernel can jump.
int clock_gettime(clockid_t clock, timespec* time) __THROW {
  const auto result = static_cast<int>(syscall(SYS_clock_gettime, clock, Arg(time)));
  if (result == 0 && clock == CLOCK_REALTIME && nd::crash::control != nullptr)
    time->tv_sec += nd::crash::control->wall_offset.load(std::memory_order_relaxed);
  return result;
}
int dup(int fd) __THROW {
  return static_cast<int>(
      GuardFailure(__builtin_return_address(0), "dup", [&] { return syscall(SYS_dup, fd); }));
}
int open(const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const auto mode = va_arg(arguments, mode_t);
  va_end(arguments);
  return static_cast<int>(GuardFailure(__builtin_return_address(0), "open", [&] {
    return syscall(SYS_openat, AT_FDCWD, Arg(path), flags, mode);
  }));
}
int rename(const char* from, const char* to) __THROW {
  return static_cast<int>(GuardFailure(__builtin_return_address(0), "rename",
                                       [&] { return syscall(SYS_rename, Arg(from), Arg(to)); }));
}
int getsockname(int fd, sockaddr* address, socklen_t* length) __THROW {
  return static_cast<int>(GuardFailure(__builtin_return_address(0), "getsockname", [&] {
    return syscall(SYS_getsockname, fd, Arg(address), Arg(length));
  }));
}
int getsockopt(int fd, int level, int name, void* value, socklen_t* length) __THROW {
  return static_cast<int>(GuardFailure(__builtin_return_address(0), "getsockopt", [&] {
    return syscall(SYS_getsockopt, fd, level, name, Arg(value), Arg(length));
  }));
}

}  // extern "C"

// Memory from malloc, so that the library's operator delete fits.
void* operator new(std::size_t size) {
  return nd::crash::Allocate(__builtin_return_address(0), size, 0, true);
}
void* operator new[](std::size_t size) {
  return nd::crash::Allocate(__builtin_return_address(0), size, 0, true);
}
void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  return nd::crash::Allocate(__builtin_return_address(0), size, 0, false);
}
void* operator new[](std::size_t size, const std::nothrow_t&) noexcept {
  return nd::crash::Allocate(__builtin_return_address(0), size, 0, false);
}
void* operator new(std::size_t size, std::align_val_t alignment) {
  return nd::crash::Allocate(__builtin_return_address(0), size, static_cast<std::size_t>(alignment), true);
}
void* operator new[](std::size_t size, std::align_val_t alignment) {
  return nd::crash::Allocate(__builtin_return_address(0), size, static_cast<std::size_t>(alignment), true);
}
