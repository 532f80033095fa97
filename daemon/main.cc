// SPDX-License-Identifier: Apache-2.0
// ndbrokerd: command line, signals, exit codes. 0 clean stop, 1 could not start, 2 wrong command line or
// configuration, 3 another broker holds the directory.

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <map>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "base/os/kept_sockets.h"
#include "base/os/requests.h"
#include "base/os/service_manager.h"
#include "daemon/config.h"
#include "daemon/ops/logging.h"
#include "daemon/ops/process.h"
#include "daemon/server/late_services.h"
#include "daemon/server/runtime_dir.h"
#include "daemon/server/server.h"
#include "daemon/server/services.h"
#include "daemon/start.h"
#include "provider/registry_cm.h"

namespace {

enum ExitCode { kStopped = 0, kFailed = 1, kUsage = 2, kAlreadyRunning = 3 };

struct Flags {
  std::string config, directory, check, log_level;
  std::map<std::string, std::vector<std::string>> provider;  // By name, values of the flags of providers.
  bool test_clock = false;
};

// Applies the command line over the file.
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
  for (const auto& provider : config->providers) {
    for (const nd::provider::DaemonProvider::Flag& flag : provider->flags()) {
      const auto given = flags.provider.find(flag.name);
      if (given == flags.provider.end() || given->second.empty()) continue;
      nd::Result<nd::provider::DaemonProvider::Change> change = provider->Apply(flag.name, given->second);
      if (!change.ok()) return change.status();
      config->Override(change->setting, change->value);
    }
  }
  return config;
}

nd::Result<nd::Config> Load(const Flags& flags) {
  return Apply(flags, flags.config.empty() ? nd::Config::Default() : nd::LoadConfig(flags.config));
}

// Writes the lines of a text to the journal as errors, or to standard error.
void Complain(std::string_view text) {
  while (text.ends_with('\n')) text.remove_suffix(1);
  if (!nd::ops::LogsToJournal()) {
    std::fprintf(stderr, "%.*s\n", static_cast<int>(text.size()), text.data());
    return;
  }
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    nd::ops::LogError(text.substr(at, end - at));
    at = end + 1;
  }
}

// Feeds the watchdog while every thread answers, and reports the threads that do not once. A hanging disk is
// no reason to end the broker: the next one would have the same disk.
class Feeder {
 public:
  explicit Feeder(const nd::os::ServiceManager& manager) : manager_(manager) {}
  void operator()(const nd::ops::Pulse::Names& stale) {
    std::string names;
    bool fatal = false;
    for (const std::string& name : stale) {
      names += (names.empty() ? "" : ", ") + name;
      fatal |= name != "history";
    }
    if (!fatal) manager_.Alive();
    if (names == told_) return;
    told_ = names;
    if (names.empty()) {
      nd::ops::LogInfo("every thread answers again");
    } else {
      nd::ops::LogError("a thread does not answer: " + names +
                        (fatal && manager_.watchdog() ? "; the watchdog will end this broker" : ""));
    }
  }

 private:
  const nd::os::ServiceManager& manager_;
  std::string told_;
};

int Serve(const Flags& flags, const nd::Config& config) {
  nd::Result<nd::os::ServiceManager> manager = nd::os::ServiceManager::FromEnvironment();
  if (!manager.ok()) {
    nd::ops::LogError(manager.status().message());
    return kFailed;
  }
  nd::service::Server::Options options;
  options.config = config;
  options.directory =
      config.broker.directory.empty() ? nd::service::DefaultRuntimeDirectory() : config.broker.directory;
  options.version = NDBROKER_VERSION;
  options.test_clock = flags.test_clock;
  options.inherited = manager->TakeDescriptors();
  nd::os::StoredSockets kept(manager.value(), &options.inherited);
  for (const auto& provider : options.config.providers) provider->KeepListeners(&kept);
  options.make_manager = nd::provider::MakeConnectionManager;
  options.make_services = nd::service::MakeServices(nd::service::LoadLateServices);
  if (!flags.config.empty()) options.load = [flags] { return Load(flags); };
  options.parse = [flags](const std::string& text, const std::string& file) {
    return Apply(flags, nd::ParseConfig(text, file));
  };
  options.on_pulse = Feeder(manager.value());
  const std::string directory = options.directory;

  // Blocked in every thread that is made from here on; the main thread waits for them.
  const nd::os::Requests requests(
      {nd::os::Request::kTerminate, nd::os::Request::kInterrupt, nd::os::Request::kReload});

  nd::Result<std::unique_ptr<nd::service::Server>> server = nd::service::Server::Start(std::move(options));
  if (!server.ok()) {
    const std::string why =
        server.status().message().empty() ? server.status().ToString() : server.status().message();
    nd::ops::LogError(why);
    manager->Status("Cannot start: " + why);
    return server.status() == nd::StatusCode::kSharingViolation &&
                   server.status().message().starts_with("another ndbrokerd")
               ? kAlreadyRunning
               : kFailed;
  }
  nd::ops::LogInfo("ndbrokerd " NDBROKER_VERSION " serves " + directory);
  const std::string serving = "Serving " + directory;
  manager->Ready(serving);
  if (!manager->present()) {
    std::printf("READY %s\n", directory.c_str());
    std::fflush(stdout);
  }
  for (;;) {
    const nd::os::Request request = requests.Wait();
    if (request != nd::os::Request::kReload) {
      nd::ops::LogInfo("stopping on " + std::string(Name(request)));
      manager->Stopping("Stopping; established connections go on");
      return kStopped;
    }
    manager->Reloading("Reading the configuration again");
    const nd::Status status = server.value()->Reload();  // Logs the result, except NOT_SUPPORTED.
    if (status == nd::StatusCode::kNotSupported) nd::ops::LogInfo(status.message());
    manager->Ready(serving + (status.ok()
                                  ? ""
                                  : "; reload refused, the former configuration stays: " + status.message()));
  }
}

int Run(int argc, char** argv) {
  nd::ops::EndWhenMemoryRunsOut();
  Flags flags;
  CLI::App app("ndbrokerd: the RDMA connection broker of this host", "ndbrokerd");
  app.add_option("--config", flags.config, "Configuration file (docs/configuration.md)");
  app.add_option("--dir", flags.directory, "Directory for the sockets");
  for (const auto& provider : nd::provider::MakeDaemonProviders()) {
    for (const nd::provider::DaemonProvider::Flag& flag : provider->flags()) {
      CLI::Option* const option = app.add_option("--" + flag.name, flags.provider[flag.name], flag.help);
      if (!flag.many) option->expected(1);
    }
  }
  app.add_option("--check-config", flags.check, "Check this configuration file and exit");
  app.add_flag("--test-clock", flags.test_clock, "Allow 'SkipTime' of the admin service (tests)");
  app.add_option("--log-level", flags.log_level, "trace, debug, info, warning, error or off")
      ->check(CLI::IsMember({"trace", "debug", "info", "warning", "error", "off"}));
  app.set_version_flag("--version", "ndbrokerd " NDBROKER_VERSION);
  nd::ops::StartLogging("info");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    std::ostringstream answer, complaint;
    const int code = app.exit(error, answer, complaint);
    std::fputs(answer.str().c_str(), stdout);
    if (code != 0) Complain(complaint.str());
    return code == 0 ? kStopped : kUsage;
  }
  if (!flags.check.empty()) {
    const nd::Result<nd::Config> config = nd::LoadConfig(flags.check);
    if (config.ok()) {
      std::printf("%s: correct\n", flags.check.c_str());
      return kStopped;
    }
    Complain(config.status().message());
    return kUsage;
  }
  const nd::Result<nd::Config> config = Load(flags);
  if (!config.ok()) {
    Complain(config.status().message());
    return kUsage;
  }
  nd::ops::SetLogLevel(config->broker.log_level);
  nd::ops::RaiseFdLimit();
  return Serve(flags, config.value());
}

}  // namespace

// An unexpected exception must end the process where it is thrown.
int main(int argc, char** argv) {  // NOLINT(bugprone-exception-escape)
  return nd::StartProgram(argc, argv, Run);
}
