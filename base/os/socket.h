// SPDX-License-Identifier: Apache-2.0
// Sockets of the host and of the network, below the protocols that use them. Any thread.
//
// A call that fails sets errno, on every system with the numbers of <cerrno>. A new socket is not inherited
// by child processes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "base/clock.h"
#include "base/unique_fd.h"
#include "nd/types.h"

namespace nd::os {

// kMessages: a send is received whole (SOCK_SEQPACKET). On Windows the sockets of a path have this kind
// alone: one that was made as kStream carries what it was given, in messages of at most kStreamMessage bytes.
enum class SocketKind { kStream, kMessages };
inline constexpr std::size_t kStreamMessage = 16 * 1024;

// The longest path of a socket of this host.
std::size_t LongestSocketPath();

// Never ends.
inline constexpr Duration kPatient{0};

// Connects to a socket of this host. Empty: no socket, or ENAMETOOLONG; EACCES, EPERM: no permission; ENOENT:
// nothing there; ECONNREFUSED: nobody listens; EAGAIN, EINPROGRESS: nobody accepted within `timeout`; EINTR:
// a signal arrived. The socket blocks.
UniqueFd ConnectLocal(const std::string& path, SocketKind kind, Duration timeout);

// The result of connecting by a host's name.
struct Dialled {
  UniqueFd socket;     // Non-blocking. Empty on failure; `error` and `reason` tell the cause.
  int error = 0;       // The error of the last address that was tried; 0: the name has no address.
  std::string reason;  // For people.
};
// Resolves the name and tries each of its addresses until `deadline`. Resolving can block for longer.
// ETIMEDOUT: the last address did not answer in time.
Dialled ConnectTcp(const std::string& host, std::uint16_t port, Time deadline);

// A non-blocking socket that listens at `at` (port 0: any free one) and takes over a port in TIME_WAIT.
UniqueFd ListenTcp(const Address& at, int backlog);

// Not well formed: not a TCP socket, or not connected.
Address LocalAddress(int socket);
Address PeerAddress(int socket);
// The user who connected a socket of this host, as the kernel saw it.
std::optional<std::uint32_t> PeerUser(int socket);

// Absent: not a socket, or of another kind.
std::optional<SocketKind> KindOf(int socket);

// Two connected stream sockets of this host. False: errno says why.
bool MakeStreamPair(UniqueFd* a, UniqueFd* b, bool blocking);

// Sends or receives without waiting. Returns the number of bytes; -1 with EAGAIN when nothing is possible
// now; 0 from Receive when the peer sends nothing more. A peer that has gone is an error, never a signal.
std::ptrdiff_t Send(int socket, const void* bytes, std::size_t size);
std::ptrdiff_t Receive(int socket, void* buffer, std::size_t size);

// Sends the pieces one behind the other, as far as they fit now. Returns as Send() does. At most 1024 pieces.
struct Piece {
  const std::byte* data;
  std::size_t size;
};
std::ptrdiff_t SendPieces(int socket, std::span<const Piece> pieces);

// One message of a socket of kind kMessages. The system discards descriptors that came with it.
struct ReceivedMessage {
  std::ptrdiff_t size = 0;  // As Receive() returns it.
  bool had_descriptors = false;
  bool too_long = false;  // The buffer contains only the beginning of the message.
};
ReceivedMessage ReceiveMessage(int socket, std::span<std::byte> buffer);
// Of kind kMessages, for a caller that asks all the time. False: as far as is known without a call of the
// system, ReceiveMessage() has no result. What was sent just now can be missed, and is found by a later call.
bool MayHaveMessage(int socket);

enum class Direction { kReceive, kSend, kBoth };
void ShutDown(int socket, Direction direction);

// A number that no other socket gets while this host runs. 0: not a socket.
std::uint64_t SocketNumber(int socket);

// With `reset` a close, including the close at the end of the process, resets the connection, and the peer
// gets an error. Otherwise sent bytes and the end of the stream still arrive.
void ResetOnClose(int socket, bool reset);

// TCP: sends small messages at once, and notices a vanished peer after `idle` without traffic, or when sent
// bytes or questions stay without acknowledgement for `unacknowledged`.
void KeepTcpAlive(int socket, Duration idle, Duration unacknowledged);

// TCP: the most bytes of one segment. 0: unknown.
std::size_t LargestSegment(int socket);

// TCP: the state of the connection, without reading. kPeerFinished: the peer has ended its stream, and this
// side has not.
enum class TcpState { kOther, kPeerFinished, kClosed };
TcpState StateOfTcp(int socket);

}  // namespace nd::os
