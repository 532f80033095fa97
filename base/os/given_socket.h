// SPDX-License-Identifier: Apache-2.0
// Sockets that one process makes in its network namespace and gives to another one. Any thread.
//
// The giver may keep a duplicate and use it at any time, so a check proves the state at its moment only, and
// a call on such a socket may wait although the socket was non-blocking (call_alarm.h).
#pragma once

#include <cstdint>
#include <string>

#include "base/unique_fd.h"
#include "nd/status.h"
#include "nd/types.h"

namespace nd::os {

// kRoutes: reads addresses and routes of its network namespace.
enum class GivenKind : std::uint8_t { kOther, kTcp4, kTcp6, kRoutes };

// The state of a socket according to the kernel.
struct GivenFacts {
  GivenKind kind = GivenKind::kOther;
  bool is_socket = false, bound = false, listening = false, connected = false;
  bool layered = false;       // Another protocol handles its bytes (TCP_ULP).
  std::uint64_t network = 0;  // Its network namespace, as in NetworkOf(); 0: unknown.
};

// ---- the giver
// A fresh non-blocking socket of this thread's network namespace. Empty with errno: none of that kind.
UniqueFd MakeGiven(GivenKind kind);
// kOther for a family that is neither IPv4 nor IPv6.
GivenKind TcpKindOf(Address::Family family);

// ---- the receiver
GivenFacts FactsOf(int fd);
// Pure. Why a socket with these facts must not be used for a client of `network`; empty: it is a fresh socket
// of that network namespace. A whole sentence without the full stop.
std::string WhyUnfit(const GivenFacts& facts, std::uint64_t network);
// The number of the network namespace of a socket; no other namespace gets it while this host runs. 0: the
// kernel does not report it (before Linux 5.14).
std::uint64_t NetworkOf(int socket);

// Each makes the socket non-blocking first. SHARING_VIOLATION, INVALID_ADDRESS (not an address of its network
// namespace), ACCESS_DENIED, INSUFFICIENT_RESOURCES.
Status ListenOnGiven(int fd, const Address& at);
// The kernel chooses the port at connect().
Status BindGiven(int fd, const Address& from);

}  // namespace nd::os
