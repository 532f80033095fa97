// SPDX-License-Identifier: Apache-2.0
// The CSI driver: ephemeral inline volumes that contain the broker's client sockets.
//
// The kubelet finds the registration socket, asks for the name of the driver, and then calls Publish for each
// pod that has such a volume and Unpublish when the pod ends. The driver keeps no state but the
// registrations, so it may be restarted at any time. Thread-safe: gRPC calls from its threads.
#pragma once

#include <memory>
#include <mutex>
#include <string>

#include "daemon/pods/pod_registry.h"
#include "nd/status.h"

namespace nd::csi {

inline constexpr char kDriverName[] = "csi.ndbroker.dev";

struct Options {
  std::string client_directory;  // Is mounted into pods.
  std::string pods_directory;    // The registrations, for the broker.
  std::string kubelet_directory = "/var/lib/kubelet";
  std::string node;      // The name of this node.
  std::string endpoint;  // The path of the driver's socket.
  // In KUBELET/plugins_registry; empty: another program registers the driver.
  std::string registration_socket;
  std::string version;
};

class Driver {
 public:
  // Listens on both sockets, and replaces files that an earlier driver left. UNSUCCESSFUL: a socket cannot be
  // made; INVALID_PARAMETER: a path is too long or not absolute.
  static Result<std::unique_ptr<Driver>> Make(const Options& options);
  virtual ~Driver() = default;
};

}  // namespace nd::csi
