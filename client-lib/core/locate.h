// SPDX-License-Identifier: Apache-2.0
// Finds the broker and makes a connection whose other end is checked.
#pragma once

#include <cstdint>
#include <string>

#include "base/os/socket.h"
#include "base/unique_fd.h"
#include "nd/status.h"

namespace nd::client {

struct Location {
  std::string directory;
  // True: the owner of the directory may run the broker too, because the directory was named explicitly or is
  // that of the system. Otherwise only root and this user are trusted.
  bool trust_owner = false;
};

// `option` when it is not empty, else where base/locate.h finds it.
Location LocateBroker(const std::string& option);

// Connects to the client socket `name` (ClientSocketPath of base/locate.h) and checks the user of its server,
// as the system saw it. DEVICE_NOT_READY: there is no listener (the message names the path); ACCESS_DENIED:
// no permission, or an untrusted broker; INVALID_PARAMETER: the path does not fit a socket address.
Result<UniqueFd> ConnectToBroker(const Location& location, const char* name, os::SocketKind kind);

// True when a broker of user `server` is trusted.
bool Trusted(const Location& location, std::uint32_t server, std::uint32_t own,
             std::uint32_t directory_owner);

}  // namespace nd::client
