// SPDX-License-Identifier: Apache-2.0
// Shared by the tests of the connection manager on Linux: raw sockets.
#pragma once

#include <dirent.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>

#include "provider/soft/cm/cm_fixture.h"
#include "provider/soft/cm/tcp_socket.h"

namespace nd::provider::soft {

inline std::size_t CountDescriptors() {
  std::size_t count = 0;
  DIR* directory = opendir("/proc/self/fd");
  while (readdir(directory) != nullptr) ++count;
  closedir(directory);
  return count;
}

// A plain blocking socket, for playing foreign or hostile peers.
inline UniqueFd RawConnect(const Address& to) {
  UniqueFd fd(
      socket(to.family() == Address::Family::kIpv6 ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_storage storage{};
  const std::size_t length = to.ToSockaddr(&storage);
  if (connect(fd.get(), reinterpret_cast<const sockaddr*>(&storage), static_cast<socklen_t>(length)) != 0)
    fd.reset();
  return fd;
}

inline UniqueFd RawListen(const Address& at) {
  auto fd = ListenOn(at);
  return fd.ok() ? std::move(fd).value() : UniqueFd();
}

inline void RawSend(int fd, const Bytes& bytes) {
  EXPECT_EQ(send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL), static_cast<ssize_t>(bytes.size()));
}

inline void RawReset(UniqueFd& fd) {
  SetResetOnClose(fd.get(), true);
  fd.reset();
}

// Returns the bytes that have arrived and leaves the connection open.
inline Bytes RawReceive(int fd) {
  Bytes all;
  std::array<std::uint8_t, 2048> buffer;
  ssize_t got;
  while ((got = recv(fd, buffer.data(), buffer.size(), MSG_DONTWAIT)) > 0) {
    all.insert(all.end(), buffer.begin(), buffer.begin() + got);
  }
  return all;
}

// The start frame of a peer that connects in `separate` mode.
inline Bytes RequestBytes() {
  return ActiveHandshake({PortMode::kSeparate, true, 128}, 50001, 7000, {4, 4}, Bytes(30, 5)).Start().send;
}

inline bool RawClosed(int fd) {
  return PeerClosed(fd);
}

}  // namespace nd::provider::soft
