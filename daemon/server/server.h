// SPDX-License-Identifier: Apache-2.0
// The broker as one object: directory, sockets, loop thread, gRPC servers.
//
// Start and Stop on one thread; Reload on any. Between them the broker serves on its own threads.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/os/service_manager.h"
#include "daemon/config.h"
#include "daemon/ops/pulse.h"
#include "daemon/shell/broker_shell.h"

namespace nd::service {

class Services;
struct ServicesHost;
using ServicesFactory = std::function<std::unique_ptr<Services>(ServicesHost)>;

class Server {
 public:
  struct Options {
    Config config;
    std::string directory;
    std::string version;
    bool test_clock = false;
    ManagerFactory make_manager;
    ServicesFactory make_services;         // What MakeServices() of services.h returns. Null: none.
    std::function<Result<Config>()> load;  // Reads the configuration again; null when there is no file.
    // Called once a second with the names of the threads that do not answer (ops::Pulse). A watchdog is fed
    // here while the list is empty. May be null.
    std::function<void(const ops::Pulse::Names& stale)> on_pulse;
    // Parses a text as the configuration of this broker. Null: the plain parser.
    std::function<Result<Config>(const std::string& text, const std::string& file)> parse;
    // Listening sockets that a service manager opened; the broker makes those that are missing.
    std::vector<os::InheritedDescriptor> inherited;
  };

  // SHARING_VIOLATION (another broker, or a TCP port in use), ACCESS_DENIED, UNSUCCESSFUL, and the statuses
  // of InheritedSockets::Check and MakeConnectionManager.
  static Result<std::unique_ptr<Server>> Start(Options options);
  // Informs the clients, removes the sockets and waits for every thread; established connections continue.
  ~Server();

  // Reads, checks and applies the configuration; on failure the old one stays. The message of
  // SUCCESS names the settings that took effect and those that need a restart. INVALID_PARAMETER,
  // UNSUCCESSFUL, NOT_SUPPORTED (started without a file).
  Status Reload();

 private:
  class Impl;
  explicit Server(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace nd::service
