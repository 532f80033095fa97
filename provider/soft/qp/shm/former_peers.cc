// SPDX-License-Identifier: Apache-2.0
#include "provider/soft/qp/shm/former_peers.h"

#include <chrono>
#include <thread>
#include <utility>

namespace nd::provider::soft {

std::uint32_t FormerPeer::Running() const {
  const auto& segment_of_both = *reinterpret_cast<const Segment*>(segment.data());
  const std::uint32_t stag = segment_of_both.side[side].hazard.load(std::memory_order_acquire);
  return stag != 0 && identity.Lives() ? stag : 0;
}

void FormerPeers::Keep(FormerPeer peer) {
  if (peer.Running() == 0) return;
  std::lock_guard lock(mutex_);
  std::erase_if(peers_, [](const FormerPeer& kept) { return kept.Running() == 0; });
  if (peers_.size() == kMost) peers_.pop_front();
  peers_.push_back(std::move(peer));
}

bool FormerPeers::Touches(std::uint32_t stag) {
  std::lock_guard lock(mutex_);
  bool touches = false;
  std::erase_if(peers_, [&](const FormerPeer& kept) {
    const std::uint32_t running = kept.Running();
    touches = touches || running == stag;
    return running == 0;
  });
  return touches;
}

void FormerPeers::Await(std::uint32_t stag) {
  while (Touches(stag)) std::this_thread::sleep_for(std::chrono::microseconds(100));
}

}  // namespace nd::provider::soft
