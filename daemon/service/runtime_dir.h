// SPDX-License-Identifier: Apache-2.0
// The broker's directory: made or checked, locked against a second broker, and the sockets in it.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>

#include "base/unique_fd.h"
#include "nd/status.h"

namespace nd::service {

// $RUNTIME_DIRECTORY of systemd, else OwnBrokerDirectory() of base/locate.h.
std::string DefaultRuntimeDirectory();

// Makes `path` if need be (0755 for root, else 0700) and takes its lock, held as long as the result lives.
// ACCESS_DENIED: it belongs to somebody else or others may write in it. SHARING_VIOLATION: a broker has it;
// the message names its pid. UNSUCCESSFUL: the system said no.
Result<UniqueFd> LockRuntimeDirectory(const std::string& path);

// A listening non-blocking socket of `type` at `path`; a left-over file is replaced only when nobody answers
// there (SHARING_VIOLATION otherwise). Never more open than `mode`, not even for a moment.
Result<UniqueFd> ListenUnix(const std::string& path, int type, mode_t mode, std::optional<gid_t> group);

}  // namespace nd::service
