// SPDX-License-Identifier: Apache-2.0
// systemd's protocol written out: a datagram of NAME=VALUE lines for each message, descriptors from number 3
// on. libsystemd would do the same, and bring five more libraries into the daemon.
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "base/os/service_manager.h"

namespace nd::os {
namespace {

constexpr int kFirstDescriptor = 3;
constexpr std::uint64_t kMostDescriptors = 4096;

std::optional<std::string> TakeVariable(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr) return std::nullopt;
  std::string text = value;
  ::unsetenv(name);
  return text;
}

Status Strange(const char* name, const std::string& value, const char* expected) {
  return {StatusCode::kInvalidParameter, "the environment variable " + std::string(name) + " is \"" + value +
                                             "\"; it must be " + expected +
                                             ", as systemd sets it, or not be set at all"};
}

bool ParseNumber(const std::string& text, std::uint64_t* out) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *out);
  return error == std::errc() && end == text.data() + text.size() && !text.empty();
}

// Returns whether variables with this pid are meant for this process. False: they are meant for its parent.
// No pid: they are meant for any process.
Result<bool> MeansUs(const char* name, const std::optional<std::string>& pid) {
  if (!pid) return true;
  std::uint64_t number = 0;
  if (!ParseNumber(*pid, &number)) return Strange(name, *pid, "the number of a process");
  return number == static_cast<std::uint64_t>(::getpid());
}

Result<UniqueFd> ConnectNotification(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if ((path.front() != '/' && path.front() != '@') || path.size() < 2 ||
      path.size() >= sizeof address.sun_path) {
    return Strange("NOTIFY_SOCKET", path, "the absolute path of a socket, or '@' and an abstract name");
  }
  std::memcpy(address.sun_path, path.data(), path.size());
  if (path.front() == '@') address.sun_path[0] = '\0';
  UniqueFd fd(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + path.size());
  if (!fd || ::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), length) != 0) {
    const int error = errno;
    return nd::Status(StatusCode::kInvalidParameter,
                      "the environment variable NOTIFY_SOCKET is \"" + path +
                          "\", and nobody answers there: " + std::strerror(error) + "; unset it",
                      Detail::kNone, error);
  }
  return fd;
}

Result<std::vector<InheritedDescriptor>> TakeInherited() {
  const std::optional<std::string> pid = TakeVariable("LISTEN_PID"), count = TakeVariable("LISTEN_FDS"),
                                   names = TakeVariable("LISTEN_FDNAMES");
  std::vector<InheritedDescriptor> out;
  if (!count) return out;
  const Result<bool> ours = MeansUs("LISTEN_PID", pid);
  if (!ours.ok()) return ours.status();
  std::uint64_t number = 0;
  if (!ParseNumber(*count, &number) || number > kMostDescriptors) {
    return Strange("LISTEN_FDS", *count, "a number of descriptors up to 4096");
  }
  if (!ours.value()) return out;
  std::string_view rest = names ? std::string_view(*names) : std::string_view();
  for (int i = 0; i < static_cast<int>(number); ++i) {
    const int fd = kFirstDescriptor + i;
    if (::fcntl(fd, F_SETFD, FD_CLOEXEC) != 0) {
      return Strange("LISTEN_FDS", *count, "the number of descriptors that are open from number 3 on");
    }
    const std::size_t colon = rest.find(':');
    out.push_back({std::string(rest.substr(0, colon)), UniqueFd(fd)});
    rest = colon == rest.npos ? std::string_view() : rest.substr(colon + 1);
  }
  return out;
}

Result<std::optional<Duration>> TakeWatchdog() {
  const std::optional<std::string> pid = TakeVariable("WATCHDOG_PID"), period = TakeVariable("WATCHDOG_USEC");
  if (!period) return std::optional<Duration>();
  const Result<bool> ours = MeansUs("WATCHDOG_PID", pid);
  if (!ours.ok()) return ours.status();
  std::uint64_t microseconds = 0;
  if (!ParseNumber(*period, &microseconds) || microseconds == 0 || microseconds > std::uint64_t{1} << 50) {
    return Strange("WATCHDOG_USEC", *period, "a number of microseconds");
  }
  if (!ours.value()) return std::optional<Duration>();
  return std::optional<Duration>(std::chrono::microseconds(microseconds));
}

// Replaces ends of line: the service manager would read the text after one as another message.
std::string OneLine(std::string_view text) {
  std::string line(text);
  for (char& c : line) {
    if (c == '\n') c = ' ';
  }
  return line;
}

}  // namespace

Result<ServiceManager> ServiceManager::FromEnvironment() {
  ServiceManager manager;
  // The descriptors are taken first, so that none stays open without an owner after an error.
  Result<std::vector<InheritedDescriptor>> inherited = TakeInherited();
  const std::optional<std::string> path = TakeVariable("NOTIFY_SOCKET");
  const Result<std::optional<Duration>> watchdog = TakeWatchdog();
  if (!inherited.ok()) return inherited.status();
  if (!watchdog.ok()) return watchdog.status();
  manager.descriptors_ = std::move(inherited).value();
  if (!path || path->empty()) return manager;
  Result<UniqueFd> socket = ConnectNotification(*path);
  if (!socket.ok()) return socket.status();
  manager.socket_ = std::move(socket).value();
  manager.watchdog_ = watchdog.value();
  return manager;
}

bool ServiceManager::Send(const std::string& message, int fd) const {
  if (!socket_) return false;
  iovec part{const_cast<char*>(message.data()), message.size()};
  msghdr datagram{};
  datagram.msg_iov = &part;
  datagram.msg_iovlen = 1;
  alignas(cmsghdr) std::array<std::byte, CMSG_SPACE(sizeof fd)> control{};
  if (fd >= 0) {
    datagram.msg_control = control.data();
    datagram.msg_controllen = control.size();
    cmsghdr* const header = CMSG_FIRSTHDR(&datagram);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof fd);
    std::memcpy(CMSG_DATA(header), &fd, sizeof fd);
  }
  return ::sendmsg(socket_.get(), &datagram, MSG_NOSIGNAL) == static_cast<ssize_t>(message.size());
}

void ServiceManager::Ready(std::string_view status) const {
  Send("READY=1\nSTATUS=" + OneLine(status));
}
void ServiceManager::Status(std::string_view status) const {
  Send("STATUS=" + OneLine(status));
}
void ServiceManager::Reloading(std::string_view status) const {
  const auto now =
      std::chrono::duration_cast<std::chrono::microseconds>(SystemClock().Now().time_since_epoch());
  Send("RELOADING=1\nMONOTONIC_USEC=" + std::to_string(now.count()) + "\nSTATUS=" + OneLine(status));
}
void ServiceManager::Stopping(std::string_view status) const {
  Send("STOPPING=1\nSTATUS=" + OneLine(status));
}
void ServiceManager::Alive() const {
  Send("WATCHDOG=1");
}
bool ServiceManager::Store(const std::string& name, int fd) const {
  return Send("FDSTORE=1\nFDNAME=" + name, fd);
}
void ServiceManager::Unstore(const std::string& name) const {
  Send("FDSTOREREMOVE=1\nFDNAME=" + name);
}

}  // namespace nd::os
