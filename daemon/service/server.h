// SPDX-License-Identifier: Apache-2.0
// The broker as one object: directory, sockets, loop thread, gRPC servers.
//
// Start and Stop on one thread; Reload on any. Between them the broker serves on its own threads.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "daemon/config.h"
#include "daemon/service/broker_shell.h"

namespace nd::service {

class Server {
 public:
  struct Options {
    Config config;
    std::string directory;
    std::string version;
    bool test_clock = false;
    ManagerFactory make_manager;
    std::function<Result<Config>()> load;  // Reads the configuration again; null: there is none.
    // What a text would be as the configuration of this broker; null: what the text says.
    std::function<Result<Config>(const std::string& text, const std::string& file)> parse;
  };

  // SHARING_VIOLATION (another broker, a taken TCP port), ACCESS_DENIED, UNSUCCESSFUL and what
  // MakeConnectionManager says.
  static Result<std::unique_ptr<Server>> Start(Options options);
  // Tells the clients, removes the sockets, waits for everything; established connections live on.
  ~Server();

  // Reads, checks and swaps the configuration; on failure the old one stays. SUCCESS may carry a message
  // about what needs a restart. INVALID_PARAMETER, UNSUCCESSFUL, NOT_SUPPORTED (started without a file).
  Status Reload();

 private:
  class Impl;
  explicit Server(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace nd::service
