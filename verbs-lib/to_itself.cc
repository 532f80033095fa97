// SPDX-License-Identifier: Apache-2.0
#include "verbs-lib/to_itself.h"

#include <cstdio>

#include "verbs-lib/device.h"
#include "verbs-lib/queue_pair.h"

namespace nd::verbs_lib {

int ExpectItself(const std::shared_ptr<QueuePair>& queue_pair, const ByNumber::Peer& peer) {
  const auto second = ByNumber::Make(FromAbi(queue_pair->base().context)->device);
  Status status = second->port() != 0 ? queue_pair->SendThrough(second) : second->no_port();
  if (!status.ok()) {
    std::fprintf(stderr, "ndbroker: this queue pair cannot be connected with itself: %s\n",
                 status.ToString().c_str());
    return ErrnoOf(status);
  }
  ByNumber::Peer receiving = peer, sending = peer;
  receiving.remote = sending.local = peer.local.WithPort(second->port());
  sending.for_sends = true;
  int error = queue_pair->by_number->Expect(queue_pair, receiving);
  if (error == 0) error = second->Expect(queue_pair, sending);
  if (error != 0) {
    queue_pair->LeavePeer();
    queue_pair->DropSecond();
  }
  return error;
}

}  // namespace nd::verbs_lib
