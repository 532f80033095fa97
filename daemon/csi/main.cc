// SPDX-License-Identifier: Apache-2.0
// ndbroker-csi: command line and signals. Exit codes: 0 clean stop, 1 could not start, 2 wrong command line.

#include <CLI/CLI.hpp>
#include <cstdio>
#include <string>

#include "base/locate.h"
#include "base/os/host.h"
#include "base/os/requests.h"
#include "daemon/csi/driver.h"
#include "daemon/ops/logging.h"
#include "daemon/ops/process.h"

// NOLINTNEXTLINE(bugprone-exception-escape): an uncaught exception is a bug and should leave a core file.
int main(int argc, char** argv) {
  nd::ops::EndWhenMemoryRunsOut();
  nd::csi::Options options;
  std::string directory = nd::kSystemBrokerDirectory;
  options.node = nd::os::HostName();
  options.version = NDBROKER_VERSION;
  CLI::App app(
      "ndbroker-csi: the CSI driver csi.ndbroker.dev, which brings the broker's client sockets into pods",
      "ndbroker-csi");
  app.add_option("--broker-dir", directory, "Directory of the broker")->capture_default_str();
  app.add_option("--kubelet-dir", options.kubelet_directory, "Directory of the kubelet")
      ->capture_default_str();
  app.add_option("--node", options.node, "Name of this node")->envname("NODE_NAME")->capture_default_str();
  app.add_option("--endpoint", options.endpoint,
                 "Socket of the driver (default: KUBELET/plugins/csi.ndbroker.dev/csi.sock)");
  app.add_option("--registration", options.registration_socket,
                 "Socket for the kubelet's plugin watcher (default: "
                 "KUBELET/plugins_registry/csi.ndbroker.dev-reg.sock)");
  app.set_version_flag("--version", "ndbroker-csi " NDBROKER_VERSION);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  options.client_directory = directory + "/" + nd::kClientDirectoryName;
  options.pods_directory = directory + "/" + nd::kPodsDirectoryName;
  if (options.endpoint.empty())
    options.endpoint = options.kubelet_directory + "/plugins/csi.ndbroker.dev/csi.sock";
  if (options.registration_socket.empty()) {
    options.registration_socket = options.kubelet_directory + "/plugins_registry/csi.ndbroker.dev-reg.sock";
  }

  const nd::os::Requests requests({nd::os::Request::kTerminate, nd::os::Request::kInterrupt});
  nd::ops::StartLogging("info");
  const nd::Result<std::unique_ptr<nd::csi::Driver>> driver = nd::csi::Driver::Make(options);
  if (!driver.ok()) {
    nd::ops::LogError(driver.status().ToString());
    return driver.status() == nd::StatusCode::kInvalidParameter ? 2 : 1;
  }
  std::printf("READY %s\n", options.endpoint.c_str());
  std::fflush(stdout);
  requests.Wait();
  return 0;
}
