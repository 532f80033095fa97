// SPDX-License-Identifier: Apache-2.0
#include "provider/soft/cm/rejected_peers.h"

#include <utility>

#include "base/os/readiness.h"

namespace nd::provider::soft {

RejectedPeers::~RejectedPeers() {
  while (!peers_.empty()) Close(peers_.begin());
}

void RejectedPeers::Keep(std::unique_ptr<TcpSocket> socket) {
  if (peers_.size() == kMost) Close(peers_.begin());
  socket->ResetOnClose(false);
  const Place peer = peers_.insert(peers_.end(), {.socket = std::move(socket)});
  peer->timer = host_.At(host_.Now() + kPatience, [this, peer] { Close(peer); });
  // The peer has nothing to send after a refusal, so bytes end its connection as its FIN does.
  if (!peer->socket->Watch(os::kReadable | os::kPeerFinished, [this, peer](std::uint32_t) { Close(peer); })) {
    Close(peer);
  }
}

void RejectedPeers::Close(Place peer) {
  host_.Cancel(peer->timer);
  peers_.erase(peer);
}

}  // namespace nd::provider::soft
