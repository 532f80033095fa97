// SPDX-License-Identifier: Apache-2.0
// Tests only: floods of HTTP/2 frames on a unix socket. One thread.
#pragma once

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <functional>
#include <string>
#include <utility>

#include "base/unique_fd.h"

namespace nd::testing::http2 {

inline std::string Frame(int kind, int flags, std::uint32_t stream, const std::string& payload) {
  const std::size_t n = payload.size();
  std::string out;
  for (const std::size_t byte :
       {n >> 16, n >> 8, n, std::size_t(kind), std::size_t(flags), std::size_t{stream >> 24},
        std::size_t{stream >> 16}, std::size_t{stream >> 8}, std::size_t{stream}}) {
    out += static_cast<char>(byte);
  }
  return out + payload;
}
// RFC 7541: literals without indexing, for names and values of fewer than 127 bytes.
inline std::string HeaderBlock(const std::string& path) {
  std::string out = "\x83\x86";  // :method POST, :scheme http
  const std::pair<std::string, std::string> fields[] = {
      {":path", path}, {":authority", "x"}, {"content-type", "application/grpc"}, {"te", "trailers"}};
  for (const auto& [name, value] : fields) {
    out += '\0';
    out += static_cast<char>(name.size()) + name + static_cast<char>(value.size()) + value;
  }
  return out;
}
inline const std::string kPreface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + Frame(4, 0, 0, "");
inline const std::string kSession = "/ndbroker.v1.Broker/Session";

// Returns the next bytes of the flood on a connection; `stream` is the last stream that began.
using Flood = std::function<std::string(std::uint32_t* stream)>;

inline Flood Resets(const std::string& path) {
  return [block = HeaderBlock(path)](std::uint32_t* stream) {
    *stream += 2;
    return Frame(1, 4, *stream, block) + Frame(3, 0, *stream, std::string("\0\0\0\x08", 4));
  };
}
inline Flood Repeated(const std::string& frame) {
  return [frame](std::uint32_t*) { return frame; };
}
inline Flood Continuations() {
  return [](std::uint32_t* stream) {
    const bool first = *stream < 3;
    *stream = 3;
    return first ? Frame(1, 0, 3, HeaderBlock(kSession)) : Frame(9, 0, 3, std::string(1000, '\0'));
  };
}
inline Flood EmptyData() {
  return [](std::uint32_t* stream) {
    const bool first = *stream < 3;
    *stream = 3;
    return first ? Frame(1, 4, 3, HeaderBlock(kSession)) : Frame(0, 0, 3, "");
  };
}

// One connection, opened again each time it is ended.
class Attacker {
 public:
  Attacker(std::string path, Flood flood, std::string opening = {})
      : path_(std::move(path)), flood_(std::move(flood)), opening_(std::move(opening)) {}
  // Waits until the broker reads, so that the flood itself takes little processor time.
  pollfd Wait() const { return {fd_.get(), POLLIN | POLLOUT, 0}; }
  void Step() {
    if (!fd_ && !Connect()) return;
    static std::array<char, 65536> answer;
    while (::recv(fd_.get(), answer.data(), answer.size(), MSG_DONTWAIT) > 0) continue;
    for (int i = 0; i < 100; ++i) {
      while (out_.size() < 32'768) out_ += flood_(&stream_);
      const ssize_t n = ::send(fd_.get(), out_.data(), out_.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
      if (n < 0 && errno == EAGAIN) return;
      if (n < 0) return fd_.reset();
      out_.erase(0, static_cast<std::size_t>(n));
    }
  }

 private:
  bool Connect() {
    UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, path_.data(), path_.size());
    if (::connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) return false;
    fd_ = std::move(fd);
    out_ = kPreface + opening_;
    stream_ = 1;
    return true;
  }
  const std::string path_;
  const Flood flood_;
  const std::string opening_;
  UniqueFd fd_;
  std::string out_;
  std::uint32_t stream_ = 1;
};

}  // namespace nd::testing::http2
