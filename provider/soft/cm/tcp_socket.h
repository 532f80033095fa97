// SPDX-License-Identifier: Apache-2.0
// The system calls of the connection manager on one TCP socket. Stateless; nothing blocks.
#pragma once

#include <cstddef>
#include <span>

#include "base/clock.h"
#include "base/unique_fd.h"
#include "nd/status.h"
#include "nd/types.h"
#include "provider/soft/cm/handshake.h"

namespace nd::provider::soft {

// Non-blocking, close-on-exec, IPv6 only when IPv6. INSUFFICIENT_RESOURCES.
Result<UniqueFd> MakeTcpSocket(Address::Family family);

// Whether a held port can start and stop listening, and sockets can connect from it meanwhile. Otherwise a
// held port serves one use: StopListening() does nothing, and BindBeside() of a held port fails.
extern const bool kFlexiblePorts;
// Whether SetLowWater() has an effect.
extern const bool kHasLowWater;

// Returns a bound socket that keeps every other program from the port. It does not listen, and older
// connections of the port may be in TIME_WAIT. SHARING_VIOLATION, INVALID_ADDRESS (not an address of this
// host), ACCESS_DENIED (privileged port), INSUFFICIENT_RESOURCES.
Result<UniqueFd> HoldPort(const Address& address);
// A held port can start and stop listening any number of times. Returns false with errno on failure.
bool StartListening(int held);
void StopListening(int held);
// A socket for connecting from a held port; `held` must not be listening. Statuses of HoldPort.
Result<UniqueFd> BindBeside(int held, const Address& address);

// A socket for connecting from `address`; the kernel selects its port at connect(), where only the 4-tuple
// must be free. INVALID_ADDRESS (not an address of this host), INSUFFICIENT_RESOURCES.
Result<UniqueFd> BindWithoutPort(const Address& address);

// Returns a socket that listens on `address` until it is closed. Statuses of HoldPort.
Result<UniqueFd> ListenOn(const Address& address);

// Returns 0, EINPROGRESS or another error number.
int Connect(int fd, const Address& remote);
// Returns the error of the connection, and forgets it.
int TakeError(int fd);
// Copies the first unread bytes and leaves them unread. Returns as os::Receive() does.
std::ptrdiff_t Peek(int fd, std::span<std::byte> into);

// Status of a connect() that ended with `error`.
Status ConnectFailure(int error, PortMode mode);

// Sets the options for the handshake: no delay, and a keepalive that detects a vanished host.
void SetHandshakeOptions(int fd, Duration keepalive);
// Sets the options for the queue pair: the end of the process resets the connection (docs/wire.md),
// congestion control without pacing, a low-water mark of one byte.
void SetHandOverOptions(int fd);
// True when the peer host has acknowledged every byte that was sent.
bool NothingUnsent(int fd);
void SetResetOnClose(int fd, bool reset);
void SetLowWater(int fd, int bytes);
// True when the peer has sent FIN or RST.
bool PeerClosed(int fd);

// Returns a malformed address when the socket has none.
Address LocalAddressOf(int fd);
Address PeerAddressOf(int fd);

}  // namespace nd::provider::soft
