// SPDX-License-Identifier: Apache-2.0
// Where the broker of this host, or of this user, has its sockets. The one rule for daemon, library and
// tools.
//
// Any thread; reads the environment and the file system, changes nothing, never fails.
#pragma once

#include <string>

namespace nd {

inline constexpr char kBrokerSocketName[] = "broker.sock";
inline constexpr char kLaneSocketName[] = "lane.sock";
inline constexpr char kAdminSocketName[] = "admin.sock";
inline constexpr char kSystemBrokerDirectory[] = "/run/ndbroker";

// Where this user's own broker puts its sockets unless told otherwise: $NDBROKER_DIR; root: /run/ndbroker;
// $XDG_RUNTIME_DIR/ndbroker; /tmp/ndbroker-$UID.
std::string OwnBrokerDirectory();

// Which directory a client talks to: $NDBROKER_DIR as it is; else the user's own directory when a broker's
// socket is there and nobody else could have put it there; else the system's.
std::string FindBrokerDirectory();

}  // namespace nd
