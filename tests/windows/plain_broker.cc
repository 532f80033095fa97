// SPDX-License-Identifier: Apache-2.0
// A broker without gRPC, history and metrics, for tests that need none of them: it is ready long before the
// libraries of ndbrokerd.exe are built.
//
// usage: plain_broker CONFIG DIRECTORY      prints READY, and ends with its standard input
#include <cstdio>

#include "daemon/config.h"
#include "daemon/ops/logging.h"
#include "daemon/server/server.h"
#include "provider/registry_cm.h"

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: plain_broker CONFIG DIRECTORY\n");
    return 2;
  }
  nd::ops::StartLogging("debug");
  nd::service::Server::Options options;
  nd::Result<nd::Config> config = nd::LoadConfig(argv[1]);
  if (!config.ok()) {
    std::fprintf(stderr, "%s\n", config.status().message().c_str());
    return 2;
  }
  options.config = *std::move(config);
  options.directory = argv[2];
  options.version = "test";
  options.make_manager = nd::provider::MakeConnectionManager;
  const auto server = nd::service::Server::Start(std::move(options));
  if (!server.ok()) {
    std::fprintf(stderr, "%s\n", server.status().ToString().c_str());
    return 1;
  }
  std::printf("READY %s\n", argv[2]);
  std::fflush(stdout);
  while (std::getchar() != EOF) {
  }
  return 0;
}
