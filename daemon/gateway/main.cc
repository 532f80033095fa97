// SPDX-License-Identifier: Apache-2.0
// ndbroker-gateway: command line and signals. Exit codes: 0 clean stop, 1 could not start, 2 wrong command
// line.

#include <CLI/CLI.hpp>
#include <cstdio>
#include <string>
#include <thread>

#include "base/locate.h"
#include "base/os/requests.h"
#include "daemon/gateway/gateway.h"
#include "daemon/ops/logging.h"
#include "daemon/ops/process.h"

// NOLINTNEXTLINE(bugprone-exception-escape): an uncaught exception is a bug and should leave a core file.
int main(int argc, char** argv) {
  nd::ops::EndWhenMemoryRunsOut();
  nd::gateway::Gateway::Options options;
  std::string listen = "127.0.0.1:9886", tls = "/etc/ndbroker/tls";
  CLI::App app("ndbroker-gateway: lets 'ndctl --host' administer this host's broker over mutual TLS",
               "ndbroker-gateway");
  app.add_option("--listen", listen, "IP:PORT to listen on; port 0: any")->capture_default_str();
  app.add_option("--tls", tls, "Directory with ca.pem, server.pem and server-key.pem")->capture_default_str();
  app.add_option("--admin", options.roles.administrators,
                 "Name in a certificate that may do everything (repeatable)");
  app.add_option("--view", options.roles.viewers, "Name in a certificate that may look (repeatable)");
  app.add_option("--address", options.broker_directory, "Directory of the broker's sockets");
  app.add_option("--connections", options.connections, "At most this many at once")
      ->check(CLI::Range(1, 4096))
      ->capture_default_str();
  app.set_version_flag("--version", "ndbroker-gateway " NDBROKER_VERSION);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  const nd::Result<nd::Address> address = nd::Address::Parse(listen);
  if (!address.ok()) {
    std::fprintf(stderr, "--listen %s: this is no IP:PORT\n", listen.c_str());
    return 2;
  }
  if (options.roles.administrators.empty() && options.roles.viewers.empty()) {
    std::fprintf(stderr, "no certificate has a right: name certificates with --admin or --view\n");
    return 2;
  }
  options.listen = *address;
  options.identity = {tls + "/server.pem", tls + "/server-key.pem", tls + "/ca.pem"};
  if (options.broker_directory.empty()) options.broker_directory = nd::FindBrokerDirectory();

  const nd::os::Requests requests({nd::os::Request::kTerminate, nd::os::Request::kInterrupt});
  nd::ops::StartLogging("info");
  nd::Result<std::unique_ptr<nd::gateway::Gateway>> gateway = nd::gateway::Gateway::Make(options);
  if (!gateway.ok()) {
    nd::ops::LogError(gateway.status().ToString());
    return 1;
  }
  std::thread serving([&] { gateway.value()->Run(); });
  std::printf("READY %s\n", gateway.value()->address().ToString().c_str());
  std::fflush(stdout);
  requests.Wait();
  gateway.value()->Stop();
  serving.join();
  return 0;
}
