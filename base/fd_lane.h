// SPDX-License-Identifier: Apache-2.0
// Datagrams, with and without descriptors, over a SOCK_SEQPACKET Unix socket (SCM_RIGHTS).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/os/socket.h"
#include "base/unique_fd.h"
#include "nd/status.h"

namespace nd {

inline constexpr std::size_t kMaxFdsPerMessage = 8;

// Never blocks. DEVICE_BUSY: the buffer of the receiver is full or too many descriptors are in flight; try
// later. CONNECTION_DISCONNECTED: the other end is closed. Descriptors are borrowed.
Status SendWithFds(int socket, std::span<const std::byte> message, std::span<const int> fds);

// Sends messages without descriptors in order, as many as the receiver takes now, and returns their number.
// Fewer than all: `why` is the status of SendWithFds() for the next one. One system call where the system
// can.
std::size_t SendInOrder(int socket, std::span<const std::span<const std::byte>> messages, Status* why);

// Receives messages without waiting, at most one for each buffer, and returns their number. Of 0 errno has
// the reason. A hang-up is a message without bytes. The system discards descriptors. One system call where
// the system can. At most kMostReceived buffers.
inline constexpr std::size_t kMostReceived = 8;
std::size_t ReceiveInOrder(int socket, std::span<const std::span<std::byte>> buffers,
                           std::span<os::ReceivedMessage> messages);

// Whether a DEVICE_BUSY of SendWithFds() ends when the receiver takes the descriptors in flight.
bool TooManyInFlight(const Status& status);

struct FdMessage {
  std::size_t size = 0;       // Bytes written to the caller's buffer.
  std::vector<UniqueFd> fds;  // All close-on-exec.
  // Some of its descriptors are lost, because the table of this process was full.
  bool lost_fds = false;
};

// With `blocking` false, DEVICE_BUSY when there is no datagram. CONNECTION_DISCONNECTED on hang-up.
// REMOTE_ERROR when the datagram is longer than `buffer` or has more than kMaxFdsPerMessage descriptors: the
// sender broke the protocol, and everything it sent is closed, or in `*of_wrong`: a close may block.
Result<FdMessage> ReceiveWithFds(int socket, std::span<std::byte> buffer, bool blocking,
                                 std::vector<UniqueFd>* of_wrong = nullptr);

// Connected pair of non-blocking close-on-exec SEQPACKET sockets.
Status MakeSeqpacketPair(UniqueFd* a, UniqueFd* b);

}  // namespace nd
