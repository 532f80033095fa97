// SPDX-License-Identifier: Apache-2.0
// The gRPC method Broker.Session: one reactor for each stream.
//
// Threads of gRPC decode and check messages and post them to the loop; completions of the loop go straight
// into the outbox of the stream. Any thread.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/event_loop.h"
#include "daemon/shell/broker_shell.h"
#include "ndbroker/v1/session.grpc.pb.h"

namespace nd::service {

// The stream carries bytes: session/codec.h reads and writes them, as it does on the fd lane.
class SessionService final
    : public ndbroker::v1::Broker::WithRawCallbackMethod_Session<ndbroker::v1::Broker::Service> {
 public:
  struct Options {
    std::size_t queue_bytes = 1024 * 1024;
    std::string version;
    std::string pods_directory;  // Of the registered pods (daemon/pods/pod_registry.h).
    // Returns the peer of a call by grpc::ServerContext::peer().
    std::function<std::optional<Peer>(std::string_view grpc_peer)> peer_of;
  };
  SessionService(EventLoop& loop, BrokerShell& shell, Options options)
      : loop_(loop), shell_(shell), options_(std::move(options)) {}

  grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* Session(
      grpc::CallbackServerContext* context) override;

 private:
  EventLoop& loop_;
  BrokerShell& shell_;
  const Options options_;
};

}  // namespace nd::service
