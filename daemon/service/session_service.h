// SPDX-License-Identifier: Apache-2.0
// gRPC's side of Broker.Session: one reactor for each stream.
//
// gRPC's threads decode and check messages and post them to the loop; the loop's answers go straight into the
// stream's outbox. Any thread.
#pragma once

#include <memory>
#include <string>

#include "base/event_loop.h"
#include "daemon/service/broker_shell.h"
#include "ndbroker/v1/session.grpc.pb.h"

namespace nd::service {

class SessionService final : public pb::Broker::CallbackService {
 public:
  struct Options {
    std::size_t queue_bytes = 1024 * 1024;
    std::string version;
  };
  SessionService(EventLoop& loop, BrokerShell& shell, Options options)
      : loop_(loop), shell_(shell), options_(std::move(options)) {}

  grpc::ServerBidiReactor<pb::ClientMessage, pb::ServerMessage>* Session(
      grpc::CallbackServerContext* context) override;

 private:
  EventLoop& loop_;
  BrokerShell& shell_;
  const Options options_;
};

}  // namespace nd::service
