// SPDX-License-Identifier: Apache-2.0
// Connects to the gateway of another host: TCP, then mutual TLS, then a plain socket for gRPC. Not on
// Windows, where there is no TLS.
#pragma once

#include <string>

#include "base/unique_fd.h"
#include "cli/error.h"

namespace nd::cli {

inline constexpr int kGatewayPort = 9886;

struct Remote {
  std::string host;  // Name, "IP", "NAME:PORT", "[IPv6]:PORT".
  std::string
      tls;  // Directory with ca.pem and one NAME.pem, NAME-key.pem; empty: $XDG_CONFIG_HOME/ndctl/tls.
};

// HOST and PORT of `text`; a usage error names what is wrong with it.
Failure ParseHost(const std::string& text, std::string* host, int* port);

// Whether DialRemote() works on this system; --host and --tls are in the help then.
bool CanDialRemote();

// Returns a stream socket to the Admin service. Fails with unreachable, no permission (certificates),
// time-out or usage.
Failure DialRemote(const Remote& remote, double timeout_seconds, UniqueFd* plain);

}  // namespace nd::cli
