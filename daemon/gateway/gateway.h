// SPDX-License-Identifier: Apache-2.0
// Remote administration: mutual TLS in front of the broker's admin socket, in a process of its own, so that
// the broker has no TLS in it and nothing that listens to the network beside the wire protocol.
//
// Accepts by itself and survives running out of descriptors; every connection has a deadline for its
// handshake, and there are never more than `connections`. Construct, then Run() on one thread; Stop() from
// any.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>

#include "base/clock.h"
#include "base/tls/tls.h"
#include "base/unique_fd.h"
#include "daemon/gateway/relay.h"
#include "nd/types.h"

namespace nd::gateway {

class Gateway {
 public:
  struct Options {
    Address listen;
    tls::Identity identity;
    Roles roles;
    std::string broker_directory;
    std::uint32_t connections = 64;
    Duration handshake_timeout = std::chrono::seconds(5);
  };

  // Statuses of tls::Context::Make; INVALID_ADDRESS, SHARING_VIOLATION or ACCESS_DENIED from listening.
  static Result<std::unique_ptr<Gateway>> Make(const Options& options);
  ~Gateway();

  // Where it listens, with the port that was chosen.
  const Address& address() const { return address_; }
  void Run();
  void Stop();

 private:
  explicit Gateway(const Options& options);
  void Serve(UniqueFd socket, const std::string& from);
  Caller CallerOf(const std::string& peer) const;

  const Options options_;
  std::shared_ptr<tls::Context> context_;
  UniqueFd listener_, stop_;
  Address address_;
  std::unique_ptr<Relay> relay_;
  std::unique_ptr<grpc::Server> server_;
  mutable std::mutex mutex_;
  std::unordered_map<int, Caller> callers_;  // By the descriptor that gRPC reads from.
  std::condition_variable ended_;
  std::uint32_t open_ = 0;
};

}  // namespace nd::gateway
