// SPDX-License-Identifier: Apache-2.0
#include "cli/remote.h"

namespace nd::cli {

bool CanDialRemote() {
  return false;
}

Failure DialRemote(const Remote& remote, double /*timeout_seconds*/, UniqueFd* /*plain*/) {
  return Error{
      Exit::kUsage,
      "--host " + remote.host + ": ndctl of Windows has no TLS, so it reaches the broker of this host alone",
      "run ndctl on Linux for another host, or on " + remote.host + " itself",
      {}};
}

}  // namespace nd::cli
