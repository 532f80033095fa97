// SPDX-License-Identifier: Apache-2.0
// Messages of base/fd_lane.h whose receiver learns from the kernel which process sent them. On a system
// without that the receiver learns nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/fd_lane.h"

namespace nd {

// SendWithFds(), in the name of this process.
Status SendInMyName(int socket, std::span<const std::byte> message, std::span<const int> fds);

// ReceiveWithFds() without blocking. *process: the number in this process' namespace of the process in whose
// name the message was sent; 0: in nobody's, or that process is not visible from here. The sender may name
// another process only with rights over all processes that it sees. No other thread uses the socket
// meanwhile.
Result<FdMessage> ReceiveWithSender(int socket, std::span<std::byte> buffer, std::uint32_t* process);
// The same when the next message is longer than `size`; else *process is 0, and a message costs one call
// more than it would without its sender.
Result<FdMessage> ReceiveLongWithSender(int socket, std::span<std::byte> buffer, std::size_t size,
                                        std::uint32_t* process);

}  // namespace nd
