// SPDX-License-Identifier: Apache-2.0
// A stream with length prefixes rather than datagrams: long lists of completions exceed a datagram.
#include "tests/testing/channel.h"

#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

namespace nd::testing {
namespace {

bool ReadAll(int fd, char* to, std::size_t size) {
  while (size > 0) {
    const ssize_t n = recv(fd, to, size, 0);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    to += n;
    size -= static_cast<std::size_t>(n);
  }
  return true;
}

bool WriteAll(int fd, const char* from, std::size_t size) {
  while (size > 0) {
    const ssize_t n = send(fd, from, size, MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    from += n;
    size -= static_cast<std::size_t>(n);
  }
  return true;
}

}  // namespace

bool ReceiveMessage(int fd, std::string* message) {
  std::uint32_t size = 0;
  if (!ReadAll(fd, reinterpret_cast<char*>(&size), sizeof(size))) return false;
  message->resize(size);
  return ReadAll(fd, message->data(), size);
}

bool SendMessage(int fd, const std::string& message) {
  const auto size = static_cast<std::uint32_t>(message.size());
  std::string framed(reinterpret_cast<const char*>(&size), sizeof(size));
  framed += message;
  return WriteAll(fd, framed.data(), framed.size());
}

void Channel::Start(SpawnOptions options) {
  int pair[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) {
    std::perror("socketpair");
    std::abort();
  }
  socket_.reset(pair[0]);
  const UniqueFd theirs(pair[1]);
  options.descriptor3 = theirs.get();
  process_ = Process::Spawn(options);
}

std::string Channel::Call(const std::string& message) {
  std::string answer;
  if (!socket_ || !SendMessage(socket_.get(), message) || !ReceiveMessage(socket_.get(), &answer)) return {};
  return answer;
}

}  // namespace nd::testing
