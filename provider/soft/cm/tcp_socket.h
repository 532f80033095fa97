// SPDX-License-Identifier: Apache-2.0
// What the connection manager asks of one TCP socket. No state, nothing blocks.
#pragma once

#include "base/clock.h"
#include "base/unique_fd.h"
#include "nd/status.h"
#include "nd/types.h"
#include "provider/soft/cm/handshake.h"

namespace nd::provider::soft {

// Non-blocking, close-on-exec, IPv6 only when IPv6. INSUFFICIENT_RESOURCES.
Result<UniqueFd> MakeTcpSocket(Address::Family family);

// A bound socket that keeps everybody else from the port, although it does not listen and although older
// connections of the port may linger in TIME_WAIT. SHARING_VIOLATION, INVALID_ADDRESS (not this host's),
// ACCESS_DENIED (privileged port), INSUFFICIENT_RESOURCES.
Result<UniqueFd> HoldPort(const Address& address);
// Held ports listen and stop listening any number of times. False with errno when the kernel refuses.
bool StartListening(int held);
void StopListening(int held);
// A socket for connecting from a held port; `held` must not be listening. Statuses of HoldPort.
Result<UniqueFd> BindBeside(int held, const Address& address);

// A socket that listens on `address` for good. Statuses of HoldPort.
Result<UniqueFd> ListenOn(const Address& address);

// Status of a connect() that ended with `error`.
Status ConnectFailure(int error, PortMode mode);

// For the time of the handshake: no delay, and a vanished host is noticed within `keepalive`.
void SetHandshakeOptions(int fd, Duration keepalive);
// For the queue pair: a closed process resets the connection (docs/wire.md), congestion control without
// pacing where the system's default is another, low-water mark back to one byte.
void SetHandOverOptions(int fd);
// Everything that was sent has been acknowledged by the other host.
bool NothingUnsent(int fd);
void ResetOnClose(int fd);
void SetLowWater(int fd, int bytes);
// True when the peer has sent its FIN (or worse).
bool PeerClosed(int fd);

// Malformed when the kernel has none.
Address LocalAddressOf(int fd);
Address PeerAddressOf(int fd);

}  // namespace nd::provider::soft
