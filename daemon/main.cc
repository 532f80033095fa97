// SPDX-License-Identifier: Apache-2.0
// ndbrokerd: command line, signals, exit codes. 0 clean stop, 1 could not start, 2 command line or
// configuration wrong, 3 another broker has the directory.
#include <signal.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <string>
#include <vector>

#include "daemon/config.h"
#include "daemon/ops/logging.h"
#include "daemon/ops/process.h"
#include "daemon/service/runtime_dir.h"
#include "daemon/service/server.h"
#include "provider/registry_cm.h"

namespace {

enum ExitCode { kStopped = 0, kFailed = 1, kUsage = 2, kAlreadyRunning = 3 };

struct Flags {
  std::string config, directory, check, log_level;
  std::vector<std::string> addresses;
  int tcp_port = 0;
  bool test_clock = false;
};

// On top of what the file says, what the command line says.
nd::Result<nd::Config> Apply(const Flags& flags, nd::Result<nd::Config> config) {
  if (!config.ok()) return config;
  if (!flags.log_level.empty()) {
    config->broker.log_level = flags.log_level;
    config->Override("broker.log-level", flags.log_level);
  }
  if (!flags.directory.empty()) {
    config->broker.directory = flags.directory;
    config->Override("broker.directory", flags.directory);
  }
  auto& adapter = config->manager.soft.adapters.front();
  const std::string prefix = "adapter." + adapter.name + ".";
  std::string addresses;
  for (const std::string& text : flags.addresses) {
    const nd::Result<nd::Address> address = nd::Address::Parse(text);
    if (!address.ok() || address->port() != 0 || address->unspecified() || address->multicast()) {
      return nd::Status(nd::StatusCode::kInvalidParameter,
                        "--adapter-address " + text + ": this is not an address of a host without a port");
    }
    if (addresses.empty()) adapter.addresses.clear();
    adapter.addresses.push_back(address.value());
    addresses += (addresses.empty() ? "" : ", ") + text;
  }
  if (!addresses.empty()) config->Override(prefix + "addresses", addresses);
  if (flags.tcp_port != 0) {
    adapter.tcp_port = static_cast<std::uint16_t>(flags.tcp_port);
    config->Override(prefix + "tcp-port", std::to_string(flags.tcp_port));
  }
  return config;
}

nd::Result<nd::Config> Load(const Flags& flags) {
  return Apply(flags, flags.config.empty() ? nd::Config::Default() : nd::LoadConfig(flags.config));
}

int Serve(const Flags& flags, const nd::Config& config) {
  nd::service::Server::Options options;
  options.config = config;
  options.directory =
      config.broker.directory.empty() ? nd::service::DefaultRuntimeDirectory() : config.broker.directory;
  options.version = NDBROKER_VERSION;
  options.test_clock = flags.test_clock;
  options.make_manager = nd::provider::MakeConnectionManager;
  if (!flags.config.empty()) options.load = [flags] { return Load(flags); };
  options.parse = [flags](const std::string& text, const std::string& file) {
    return Apply(flags, nd::ParseConfig(text, file));
  };
  const std::string directory = options.directory;

  // Blocked in every thread that is made from here on; this one waits for them.
  sigset_t signals;
  sigemptyset(&signals);
  for (const int number : {SIGTERM, SIGINT, SIGHUP}) sigaddset(&signals, number);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  signal(SIGPIPE, SIG_IGN);

  nd::Result<std::unique_ptr<nd::service::Server>> server = nd::service::Server::Start(std::move(options));
  if (!server.ok()) {
    nd::ops::LogError(server.status().message().empty() ? server.status().ToString()
                                                        : server.status().message());
    return server.status() == nd::StatusCode::kSharingViolation &&
                   server.status().message().starts_with("another ndbrokerd")
               ? kAlreadyRunning
               : kFailed;
  }
  std::printf("READY %s\n", directory.c_str());
  std::fflush(stdout);
  nd::ops::LogInfo("ndbrokerd " NDBROKER_VERSION " serves " + directory);
  for (;;) {
    int number = 0;
    if (sigwait(&signals, &number) != 0) continue;
    if (number != SIGHUP) {
      nd::ops::LogInfo(std::string("stopping on ") + (number == SIGTERM ? "SIGTERM" : "SIGINT"));
      return kStopped;
    }
    const nd::Status status = server.value()->Reload();  // Logs its own failure.
    if (status.ok() && !status.message().empty()) nd::ops::LogInfo(status.message());
    if (status == nd::StatusCode::kNotSupported) nd::ops::LogInfo(status.message());
  }
}

}  // namespace

// An exception that nobody expects is to end the process where it is thrown.
int main(int argc, char** argv) {  // NOLINT(bugprone-exception-escape)
  nd::ops::EndWhenMemoryRunsOut();
  Flags flags;
  CLI::App app("ndbrokerd: the RDMA connection broker of this host", "ndbrokerd");
  app.add_option("--config", flags.config, "Configuration file (docs/configuration.md)");
  app.add_option("--dir", flags.directory, "Directory for the sockets");
  app.add_option("--adapter-address", flags.addresses, "Only this address on the first adapter (repeatable)");
  app.add_option("--tcp-port", flags.tcp_port, "TCP port of the first adapter")->check(CLI::Range(1, 65535));
  app.add_option("--check-config", flags.check, "Check this configuration file and exit");
  app.add_flag("--test-clock", flags.test_clock, "Allow 'SkipTime' of the admin service (tests)");
  app.add_option("--log-level", flags.log_level, "trace, debug, info, warning, error or off")
      ->check(CLI::IsMember({"trace", "debug", "info", "warning", "error", "off"}));
  app.set_version_flag("--version", "ndbrokerd " NDBROKER_VERSION);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? kStopped : kUsage;
  }
  if (!flags.check.empty()) {
    const nd::Result<nd::Config> config = nd::LoadConfig(flags.check);
    if (config.ok()) {
      std::printf("%s: correct\n", flags.check.c_str());
      return kStopped;
    }
    std::fprintf(stderr, "%s\n", config.status().message().c_str());
    return kUsage;
  }
  const nd::Result<nd::Config> config = Load(flags);
  if (!config.ok()) {
    std::fprintf(stderr, "%s\n", config.status().message().c_str());
    return kUsage;
  }
  nd::ops::StartLogging(config->broker.log_level);
  nd::ops::RaiseFdLimit();
  return Serve(flags, config.value());
}
