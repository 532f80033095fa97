// SPDX-License-Identifier: Apache-2.0
// Finds the sockets of the broker of this host or of this user. Daemon, library and tools use this rule.
//
//   DIRECTORY/          admin.sock, metrics.sock, journal, lock: the administrator's
//   DIRECTORY/pods/     names of pods, written by ndbroker-csi (daemon/pods/pod_registry.h)
//   DIRECTORY/client/   lane.sock, broker.sock: for applications; a container mounts only this directory
//
// Any thread; reads the environment and the file system, changes nothing, never fails.
#pragma once

#include <string>

namespace nd {

inline constexpr char kBrokerSocketName[] = "broker.sock";
inline constexpr char kLaneSocketName[] = "lane.sock";
inline constexpr char kAdminSocketName[] = "admin.sock";
// Metrics and the page, by HTTP.
inline constexpr char kMetricsSocketName[] = "metrics.sock";
inline constexpr char kClientDirectoryName[] = "client";
inline constexpr char kPodsDirectoryName[] = "pods";
inline constexpr char kSystemBrokerDirectory[] = "/run/ndbroker";

// The default directory of a broker of this user: $NDBROKER_DIR; root: /run/ndbroker;
// $XDG_RUNTIME_DIR/ndbroker; /tmp/ndbroker-$UID.
std::string OwnBrokerDirectory();

// The path of `name` (kLaneSocketName or kBrokerSocketName) for a client of the broker in `directory`:
// DIRECTORY/client/NAME. Without a DIRECTORY/client it is DIRECTORY/NAME: a container may mount the client
// directory alone, under any name.
std::string ClientSocketPath(const std::string& directory, const char* name);

// The directory for a client: $NDBROKER_DIR; else the directory of the user, if it has the socket of a broker
// and no other user could have put it there; else the directory of the system.
std::string FindBrokerDirectory();

}  // namespace nd
