// SPDX-License-Identifier: Apache-2.0
// The directory of the broker before it runs: for the installation of the service.
#pragma once

#include <string>

#include "nd/status.h"

namespace nd::service {

// Makes the directory if it is missing: this user, administrators and the system may use it, everyone else
// may see its owner. ACCESS_DENIED: it belongs to another user, or others may write in it. UNSUCCESSFUL: a
// system call failed.
Status MakeRuntimeDirectory(const std::string& path);

}  // namespace nd::service
