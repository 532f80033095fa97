// SPDX-License-Identifier: Apache-2.0
// Bind mounts of the CSI driver.
//
// Any thread. Needs CAP_SYS_ADMIN. Every function may be repeated: what is already so is a success.
#pragma once

#include <string>

#include "nd/status.h"

namespace nd::csi {

// Makes the directory `target` and mounts `source` there: read-only (which still lets sockets be connected),
// without devices, programs and set-user-id. ACCESS_DENIED: no privilege. INVALID_PARAMETER: `target` is a
// symbolic link or no directory. UNSUCCESSFUL: another system call failed; nothing is left behind.
Status MountReadOnly(const std::string& source, const std::string& target);
// Unmounts `target` and removes the directory.
Status Unmount(const std::string& target);
// True when something is mounted at `path` itself.
bool IsMounted(const std::string& path);

}  // namespace nd::csi
