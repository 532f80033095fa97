// SPDX-License-Identifier: Apache-2.0
// Where the broker is, and a connection to it whose other end was checked.
#pragma once

#include <sys/types.h>

#include <string>

#include "base/unique_fd.h"
#include "nd/status.h"

namespace nd::client {

struct Location {
  std::string directory;
  // The owner of the directory may run the broker too: it was named by hand or is the system's. Otherwise
  // only root and this user are believed.
  bool trust_owner = false;
};

// `option` when it is not empty, else where base/locate.h finds it.
Location LocateBroker(const std::string& option);

// Connects to DIRECTORY/`name` and checks with SO_PEERCRED who serves it. `type` is SOCK_SEQPACKET or
// SOCK_STREAM. DEVICE_NOT_READY: nobody listens there (the message names the path); ACCESS_DENIED: no
// permission, or a stranger's broker; INVALID_PARAMETER: the path does not fit a socket address.
Result<UniqueFd> ConnectToBroker(const Location& location, const char* name, int type);

// True when a broker of user `server` may be believed.
bool Trusted(const Location& location, uid_t server, uid_t own, uid_t directory_owner);

}  // namespace nd::client
