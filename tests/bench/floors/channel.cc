// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/floors/channel.h"

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string_view>

#include "tests/bench/floors/tools.h"

namespace nd::floors {
namespace {

constexpr std::size_t kMessage = 128, kDescriptors = 4;

}  // namespace

SocketPair::SocketPair(int type) {
  int fds[2];
  Must(socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, fds), "socketpair");
  ours = fds[0];
  theirs = fds[1];
}

int Listen(sockaddr_in* address) {
  const int fd = static_cast<int>(Must(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), "socket"));
  *address = {};
  address->sin_family = AF_INET;
  address->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof(*address);
  Must(bind(fd, reinterpret_cast<const sockaddr*>(address), length), "bind");
  Must(listen(fd, 128), "listen");
  Must(getsockname(fd, reinterpret_cast<sockaddr*>(address), &length), "getsockname");
  return fd;
}

int Connect(const sockaddr_in& address) {
  const int fd = static_cast<int>(Must(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), "socket"));
  Must(connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), "connect");
  SetTcpOptions(fd);
  return fd;
}

int Accept(int listener) {
  const int fd = static_cast<int>(Must(accept4(listener, nullptr, nullptr, SOCK_CLOEXEC), "accept"));
  SetTcpOptions(fd);
  return fd;
}

void SetTcpOptions(int fd) {
  const int one = 1;
  Must(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)), "TCP_NODELAY");
  char name[16] = {};
  socklen_t length = sizeof(name) - 1;
  Must(getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name, &length), "TCP_CONGESTION");
  const std::string_view control(name);
  if (control == "cubic" || control == "reno") return;
  if (setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, "cubic", 5) == 0) return;
  Must(setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, "reno", 4), "TCP_CONGESTION");
}

void SendAll(int fd, const void* data, std::size_t length, bool spin) {
  const auto* from = static_cast<const char*>(data);
  while (length > 0) {
    const ssize_t sent = send(fd, from, length, MSG_NOSIGNAL | (spin ? MSG_DONTWAIT : 0));
    if (sent < 0 && errno == EAGAIN) continue;
    Must(sent, "send");
    from += sent;
    length -= static_cast<std::size_t>(sent);
  }
}

bool ReceiveAll(int fd, void* data, std::size_t length, bool spin) {
  auto* to = static_cast<char*>(data);
  while (length > 0) {
    const ssize_t received = recv(fd, to, length, spin ? MSG_DONTWAIT : 0);
    if (received < 0 && errno == EAGAIN) continue;
    if (received == 0 || (received < 0 && errno == ECONNRESET)) return false;
    Must(received, "recv");
    to += received;
    length -= static_cast<std::size_t>(received);
  }
  return true;
}

void SendMessage(int fd, std::initializer_list<int> descriptors) {
  char bytes[kMessage] = {};
  iovec data{bytes, sizeof(bytes)};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * kDescriptors)] = {};
  if (descriptors.size() > 0) {
    const std::size_t length = sizeof(int) * std::min(descriptors.size(), kDescriptors);
    message.msg_control = control;
    message.msg_controllen = CMSG_SPACE(length);
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(length);
    std::memcpy(CMSG_DATA(header), descriptors.begin(), length);
  }
  Must(sendmsg(fd, &message, MSG_NOSIGNAL), "sendmsg");
}

bool ReceiveMessage(int fd, std::vector<int>* descriptors) {
  char bytes[kMessage];
  iovec data{bytes, sizeof(bytes)};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * kDescriptors)];
  message.msg_control = control;
  message.msg_controllen = sizeof(control);
  descriptors->clear();
  const ssize_t received = recvmsg(fd, &message, MSG_CMSG_CLOEXEC);
  if (received == 0 || (received < 0 && errno == ECONNRESET)) return false;
  Must(received, "recvmsg");
  for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr; header = CMSG_NXTHDR(&message, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
    descriptors->resize((header->cmsg_len - CMSG_LEN(0)) / sizeof(int));
    std::memcpy(descriptors->data(), CMSG_DATA(header), descriptors->size() * sizeof(int));
  }
  return true;
}

}  // namespace nd::floors
