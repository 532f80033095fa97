// SPDX-License-Identifier: Apache-2.0
// Remote administration: mutual TLS in front of the admin socket of the broker, in a separate process, so
// that the broker contains no TLS and listens to the network for the wire protocol only.
//
// The accept loop survives running out of descriptors. Every handshake has a deadline, and there are at most
// `connections`. A connection without a finished handshake, or with a certificate without rights, gives up
// its slot to a later one (ops/source_slots.h). Construct, then Run() on one thread; Stop() from any.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "base/clock.h"
#include "base/os/wake_event.h"
#include "base/tls/tls.h"
#include "base/unique_fd.h"
#include "daemon/gateway/relay.h"
#include "daemon/ops/source_slots.h"
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

  // Fails with the statuses of tls::Context::Make; INVALID_ADDRESS, SHARING_VIOLATION or ACCESS_DENIED from
  // listening.
  static Result<std::unique_ptr<Gateway>> Make(const Options& options);
  ~Gateway();

  // The listening address, with the port that was chosen.
  const Address& address() const { return address_; }
  // The number of connections with a thread, including those that are about to end. Any thread.
  std::uint32_t open() const;
  void Run();
  void Stop();

 private:
  explicit Gateway(const Options& options);
  using Id = ops::SourceSlots::Id;
  struct Connection {
    int fd = -1;               // The network socket, or the pipe once there is one; -1: about to be closed.
    std::uint64_t cookie = 0;  // Of the socket that gRPC reads from; 0: none yet.
    Caller caller;
  };
  // Returns false when there is no slot.
  bool Admit(Id id, int fd, const std::string& from);
  void Serve(Id id, UniqueFd socket, const std::string& from);
  // Makes the thread of the connection end, wherever it waits.
  void HangUp(Id id);
  void Leave(Id id);
  Caller CallerOf(const std::string& peer) const;

  const Options options_;
  std::shared_ptr<tls::Context> context_;
  UniqueFd listener_;
  os::WakeEvent stop_;
  Address address_;
  std::unique_ptr<Relay> relay_;
  std::unique_ptr<grpc::Server> server_;
  mutable std::mutex mutex_;
  ops::SourceSlots slots_;
  std::map<Id, Connection> connections_;  // Each has a thread.
  std::condition_variable ended_;
  Id last_ = 0;
};

}  // namespace nd::gateway
