// SPDX-License-Identifier: Apache-2.0
// The parts of the broker besides sessions on the fd lane. The history and the statistics are there before
// the first client, so that they miss no record. Sessions by gRPC, administration and metrics come later,
// while clients of the lane are served already, because their libraries take longer to load than all the rest
// (late_services.h).
//
// Made and used by Server alone, on the thread of its Start() and of its destructor, except Proven().
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/event_loop.h"
#include "base/os/inherited_sockets.h"
#include "base/os/socket.h"
#include "daemon/config.h"
#include "daemon/ops/pulse.h"
#include "daemon/server/server.h"
#include "daemon/service/acceptor.h"
#include "daemon/service/worker.h"
#include "daemon/shell/broker_shell.h"
#include "daemon/shell/watch_hub.h"

namespace nd::service {

// The broker as the services see it. Everything outlives them.
struct ServicesHost {
  const Server::Options& options;
  std::uint32_t boot_epoch = 1;
  SkippingClock& clock;
  EventLoop& loop;
  Time started;  // By the loop's clock.
  Worker& hello;
  WatchHub& hub;
  BrokerShell& shell;
  ops::Pulse& pulse;
  // Any thread.
  std::function<Status()> reload;
  std::function<std::vector<Setting>()> settings;
  std::function<std::string(const Config&)> needs_restart;
  // Makes or inherits the socket of this path.
  std::function<Status(const std::string& path, os::SocketKind kind, std::uint32_t mode,
                       std::optional<std::uint32_t> group, UniqueFd* out)>
      listen;
  // Runs a function on the loop, and returns when it has ended. Not before Serve().
  std::function<void(const std::function<void()>&)> on_loop;
  // Accepts its clients from now on. Loop thread.
  std::function<void(const char* name, UniqueFd fd, Acceptor::Accepted accepted)> accept;
};

class Services {
 public:
  virtual ~Services() = default;

  // The sockets that a service manager may have opened for them.
  virtual std::vector<os::InheritedSockets::Wanted> Sockets() const { return {}; }
  // Before the loop runs: opens the sockets, whose clients wait for Serve().
  virtual Status Listen() { return Status::Ok(); }
  // While the loop runs: starts the rest, and accepts the clients.
  virtual Status Serve() { return Status::Ok(); }
  // The client with this socket cookie has said a valid Hello. Loop thread.
  virtual void Proven(std::uint64_t /*cookie*/) {}
  // Before the sessions end; after that, while the loop still runs; when the loop has ended. Each also when
  // Serve() failed or was never called.
  virtual void StopFirst() {}
  virtual void StopLast() {}
  virtual void EndStreams() {}
};

class LateServices;
class Records;
// MakeLateServices() or LoadLateServices() of late_services.h.
using LateFactory =
    std::function<Result<std::unique_ptr<LateServices>>(const ServicesHost& host, Records& records)>;

// Makes all services.
ServicesFactory MakeServices(LateFactory late);

}  // namespace nd::service
