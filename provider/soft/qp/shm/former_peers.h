// SPDX-License-Identifier: Apache-2.0
// Connections that ended while the peer was copying to or from memory of this process. The end of a
// registration waits for such copies too: the peer begins no other one, because it sees that this side is
// closed.
//
// Any thread.
#pragma once

#include <cstdint>
#include <deque>
#include <mutex>

#include "base/memfd.h"
#include "provider/soft/qp/segment_layout.h"
#include "provider/soft/qp/shm/peer_process.h"

namespace nd::provider::soft {

struct FormerPeer {
  Mapping segment;
  int side = 0;  // Of the peer.
  PeerIdentity identity;

  // The STag of the copy that is running; 0: none, or the process has gone.
  std::uint32_t Running() const;
};

class FormerPeers {
 public:
  void Keep(FormerPeer peer);
  // Returns when none of them copies through `stag` any more.
  void Await(std::uint32_t stag);

 private:
  static constexpr std::size_t kMost = 64;  // The longest kept are forgotten.

  bool Touches(std::uint32_t stag);

  std::mutex mutex_;
  std::deque<FormerPeer> peers_;
};

}  // namespace nd::provider::soft
