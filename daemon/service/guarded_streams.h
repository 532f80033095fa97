// SPDX-License-Identifier: Apache-2.0
// Forwards bytes between the gRPC connections of clients and gRPC, and ends a connection that exceeds the
// limits of Http2Guard.
//
// gRPC gets one end of a socket pair instead of the socket of the client, so that a flood stops at the guard.
// A thread of its own does the work: a client that keeps it busy delays other gRPC connections slightly, but
// neither the loop nor the lanes.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>

#include "base/event_loop.h"
#include "base/unique_fd.h"
#include "daemon/service/http2_guard.h"
#include "daemon/service/peer.h"

namespace nd::service {

class GuardedStreams {
 public:
  struct Options {
    // False: bytes are only forwarded, and nobody is limited.
    bool limits = true;
    // The rate of new streams for all connections of one user; beyond it they are read later.
    Pace streams_per_uid = {512, 256};
    // Reports the peer and the exceeded limit; on the thread of the guard.
    std::function<void(const Peer&, std::string_view why)> on_flood{};
  };

  explicit GuardedStreams(Options options);
  // gRPC has closed its ends by now. Its last bytes are forwarded for a short time.
  ~GuardedStreams();
  GuardedStreams(const GuardedStreams&) = delete;
  GuardedStreams& operator=(const GuardedStreams&) = delete;

  // Any thread. Returns the end for gRPC; empty when no descriptors are left, and then the socket of the
  // client is closed.
  UniqueFd Guard(UniqueFd client, const Peer& peer);
  // Any thread. Returns the client behind "fd:7" of gRPC; nothing for another kind of peer or a closed
  // connection.
  std::optional<Peer> PeerOfCall(std::string_view grpc_peer) const;

 private:
  class Stream;
  void Begin(std::uint64_t id, UniqueFd client, UniqueFd inner, const Peer& peer);
  void End(std::uint64_t id);
  struct User {
    Bucket streams;
    std::size_t connections = 0;
  };

  const Options options_;
  SystemClock clock_;
  EventLoop loop_;
  std::map<std::uint64_t, std::unique_ptr<Stream>>
      streams_;                          // On the thread of the guard. By the cookie of the end of gRPC.
  std::map<std::uint32_t, User> users_;  // On the thread of the guard. By uid.
  mutable std::mutex mutex_;
  std::map<std::uint64_t, Peer> peers_;
  std::thread thread_;
};

}  // namespace nd::service
