// SPDX-License-Identifier: Apache-2.0
// A queue pair that its program connects with itself, as UCX does for messages of a rank to itself: its
// requests take its own receives and reach its own memory.
//
// Two queue pairs of the library stand behind it. The broker connects them by number, as it connects any two:
// the first has the port of the number and the receives, the second has a port of its own and takes the
// requests. So ordering, waiting for a receive, access checks and errors are those of any connection.
#pragma once

#include <memory>

#include "verbs-lib/by_number.h"

namespace nd::verbs_lib {

// ibv_modify_qp to RTR with the own address and number, which are those of `peer`. Returns 0 or an errno.
int ExpectItself(const std::shared_ptr<QueuePair>& queue_pair, const ByNumber::Peer& peer);

}  // namespace nd::verbs_lib
