// SPDX-License-Identifier: Apache-2.0
// The directory of the broker: made or checked, locked against a second broker, and the sockets in it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/os/socket.h"
#include "base/unique_fd.h"
#include "nd/status.h"

namespace nd::service {

// Returns $RUNTIME_DIRECTORY of systemd, else OwnBrokerDirectory() of base/locate.h.
std::string DefaultRuntimeDirectory();

// Makes `path` if it is missing (0755 for root, else 0700) and takes its lock, held as long as the result
// lives. ACCESS_DENIED: it belongs to another user, or others may write in it. SHARING_VIOLATION: another
// broker holds it; the message has its pid. UNSUCCESSFUL: a system call failed.
Result<UniqueFd> LockRuntimeDirectory(const std::string& path);

// Makes DIRECTORY/client, which every client may search; the modes of the sockets in it decide who may
// connect. It stays when the broker ends, because a container may have it mounted. Fails with the statuses of
// LockRuntimeDirectory except SHARING_VIOLATION.
Status MakeClientDirectory(const std::string& directory);

// Makes a listening non-blocking socket at `path`. An existing file is replaced only when nothing
// answers there (otherwise SHARING_VIOLATION). The permissions never exceed `mode`, not even briefly.
Result<UniqueFd> ListenUnix(const std::string& path, os::SocketKind kind, std::uint32_t mode,
                            std::optional<std::uint32_t> group);

}  // namespace nd::service
