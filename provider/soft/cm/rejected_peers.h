// SPDX-License-Identifier: Apache-2.0
// Connections of foreign peers that have been sent a rejection or a Terminate, until the peer closes them.
//
// The end of the stream must not reach the peer together with that last frame: Linux siw then reports the end
// alone, without the private data of the rejection. So the peer closes first. A connection that the peer does
// not close ends after kPatience, and the oldest one ends when there would be more than kMost.
//
// One thread, that of the host.
#pragma once

#include <chrono>
#include <cstddef>
#include <list>
#include <memory>

#include "provider/soft/cm/tcp_host.h"

namespace nd::provider::soft {

class RejectedPeers {
 public:
  static constexpr std::size_t kMost = 64;
  static constexpr Duration kPatience = std::chrono::milliseconds(200);

  // The host outlives this object.
  explicit RejectedPeers(TcpHost& host) : host_(host) {}
  ~RejectedPeers();
  RejectedPeers(const RejectedPeers&) = delete;
  RejectedPeers& operator=(const RejectedPeers&) = delete;

  // The last frame has been sent on `socket`, which nobody watches any more.
  void Keep(std::unique_ptr<TcpSocket> socket);
  std::size_t size() const { return peers_.size(); }

 private:
  struct Peer {
    std::unique_ptr<TcpSocket> socket;
    EventLoop::TimerId timer{};
  };
  using Place = std::list<Peer>::iterator;

  void Close(Place peer);

  TcpHost& host_;
  std::list<Peer> peers_;  // The oldest first.
};

}  // namespace nd::provider::soft
