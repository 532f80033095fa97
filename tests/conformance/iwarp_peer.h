// SPDX-License-Identifier: Apache-2.0
// A foreign iWARP peer: MPA, DDP and RDMAP over a plain socket. It shares no code with the product, so that
// an error in one is not repeated in the other. Blocking with deadlines; one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "base/unique_fd.h"
#include "nd/types.h"

namespace nd::conformance {

struct MpaFrame {
  bool reply = false;
  std::uint8_t flags = 0;  // M 0x80, C 0x40, R 0x20, S 0x10.
  std::uint8_t revision = 0;
  std::string private_data;  // Revision 2: without the two words of read limits.
  std::uint16_t ird = 0, ord = 0;
};

// Its sockets wait for at most ten seconds.
UniqueFd ConnectedTo(const Address& to);
UniqueFd ListenerAt(const Address& at);
UniqueFd AcceptedBy(const UniqueFd& listener);
bool SendAll(const UniqueFd& socket, const void* from, std::size_t size);
// The number of bytes before the end of the stream; -1: nothing came in time.
std::ptrdiff_t ReceiveUntil(const UniqueFd& socket, void* to, std::size_t size);

class IwarpPeer {
 public:
  // Connects; or accepts a connection of ListenerAt().
  static IwarpPeer Dial(const Address& to);
  static IwarpPeer AcceptFrom(const UniqueFd& listener);

  bool ok() const { return static_cast<bool>(fd_); }
  bool SendMpa(bool reply, std::uint8_t flags, std::uint8_t revision, const std::string& private_data,
               std::uint16_t ird = 4, std::uint16_t ord = 4);
  std::optional<MpaFrame> ReceiveMpa();
  // One RDMAP Send message of one segment.
  bool SendMessage(const std::string& payload);
  // The payload of the next Send message; empty Writes and Reads (the first frame of peer-to-peer mode) are
  // skipped.
  std::optional<std::string> ReceiveMessage();
  bool SendRaw(const std::string& bytes) { return SendAll(fd_, bytes.data(), bytes.size()); }
  bool ClosedByPeer();  // The next thing that arrives, within ten seconds, is the end of the stream.
  void Close() { fd_.reset(); }

 private:
  bool ReadExactly(void* to, std::size_t size) const;
  UniqueFd fd_;
  std::uint32_t msn_ = 1;
};

}  // namespace nd::conformance
