// SPDX-License-Identifier: Apache-2.0
// The fd lane of a client without the checks of the client library, with messages as bytes. A broker that
// hangs up is no error here: every call then returns nothing. One thread.
#pragma once

#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/fd_lane.h"
#include "base/locate.h"
#include "base/unique_fd.h"
#include "provider/hand_off.h"

namespace nd::testing {

class RawLane {
 public:
  explicit RawLane(const std::string& directory) : fd_(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0)) {
    const std::string path = ClientSocketPath(directory, kLaneSocketName);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, path.data(), path.size());
    const timeval patience{30, 0};  // A broker that does not answer fails the test; it does not hang it.
    ::setsockopt(fd_.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    if (::connect(fd_.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) fd_.reset();
  }
  bool open() const { return static_cast<bool>(fd_); }
  int fd() const { return fd_.get(); }
  void Close() { fd_.reset(); }
  // Reads until the broker hangs up. False: it does not, within the patience.
  bool ClosedByBroker() {
    char byte;
    for (;;) {
      const ssize_t n = ::recv(fd_.get(), &byte, 1, 0);
      if (n <= 0) return n == 0 || errno != EAGAIN;
    }
  }

  // The first record of the broker.
  std::string Token() {
    provider::TokenRecord record;
    const Result<FdMessage> message =
        ReceiveWithFds(fd_.get(), std::as_writable_bytes(std::span(&record, 1)), true);
    if (!message.ok() || message->size != sizeof record || record.magic != provider::TokenRecord::kMagic)
      return {};
    return {reinterpret_cast<const char*>(record.token), sizeof record.token};
  }

  // A hand-over or a counters page.
  struct Record {
    std::uint32_t magic = 0;
    std::uint64_t id = 0;
    std::vector<UniqueFd> fds;
  };
  // The next datagram, which must be a record.
  Record Receive() {
    std::array<std::byte, 256> buffer{};
    Result<FdMessage> message = ReceiveWithFds(fd_.get(), buffer, true);
    return message.ok() ? RecordOf(buffer.data(), *message) : Record{};
  }
  bool Ack(std::uint64_t id) {
    provider::AckRecord ack;
    ack.id = id;
    return SendWithFds(fd_.get(), std::as_bytes(std::span(&ack, 1)), {}).ok();
  }

  // The datagram of one message of the session.
  static std::string Datagram(const std::string& message) {
    const provider::MessageRecord record;
    const auto length = static_cast<std::uint32_t>(message.size());
    std::string out(reinterpret_cast<const char*>(&record), sizeof record);
    out.append(reinterpret_cast<const char*>(&length), sizeof length);
    return out + message;
  }
  // Returns false when the broker has hung up, or when the socket is full and `wait` is false.
  bool SendBytes(const std::string& datagram, bool wait = true) {
    return ::send(fd_.get(), datagram.data(), datagram.size(), MSG_NOSIGNAL | (wait ? 0 : MSG_DONTWAIT)) > 0;
  }
  // The next message of the session. Records before it are kept, and acknowledged if `acknowledge`.
  std::optional<std::string> ReceiveBytes() {
    static std::array<std::byte, provider::kMaxServerDatagram> buffer;
    while (unread_.empty()) {
      Result<FdMessage> message = ReceiveWithFds(fd_.get(), buffer, true);
      if (!message.ok() || message->size < 16) return std::nullopt;
      Record record = RecordOf(buffer.data(), *message);
      if (record.magic == provider::MessageRecord::kMagic) {
        const auto* bytes = reinterpret_cast<const char*>(buffer.data());
        unread_.assign(bytes + sizeof(provider::MessageRecord), bytes + message->size);
        break;
      }
      if (acknowledge) static_cast<void>(Ack(record.id));
      kept.push_back(std::move(record));
    }
    std::uint32_t length = 0;
    std::memcpy(&length, unread_.data(), sizeof length);
    std::string message = unread_.substr(sizeof length, length);
    unread_.erase(0, sizeof length + length);
    return message;
  }

  bool acknowledge = true;
  std::vector<Record> kept;

 private:
  static Record RecordOf(const std::byte* bytes, FdMessage& message) {
    Record record;
    std::memcpy(&record.magic, bytes, sizeof record.magic);
    std::memcpy(&record.id, bytes + 8, sizeof record.id);
    record.fds = std::move(message.fds);
    return record;
  }

  UniqueFd fd_;
  std::string unread_;  // Messages of the last datagram that ReceiveBytes() has not returned.
};

}  // namespace nd::testing
